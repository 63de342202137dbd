// The texts of the page in the language of the picture. They stand in English here; a picture in another language brings the others.

let texts: Record<string, string> = {};

/** Speak the language of these texts; without any, English. */
export const speak = (all: Record<string, string> = {}): void => void (texts = all);

/** A text in that language. The names in braces stand for the values, which are written as they are. */
export const translate = (text: string, values: Record<string, unknown> = {}): string =>
  (texts[text] ?? text).replace(/\{(\w+)\}/g, (hole, name) => String(values[name] ?? hole));

/** Mark a constant for the catalogue of translations, and return it as it is: it is translated where it is shown. */
export const message = (text: string): string => text;

/** A word in a sentence, as English writes it. */
export const lower = (word: string): string => (Object.keys(texts).length ? word : word.toLowerCase());
