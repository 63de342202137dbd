// Written by tools/write_view.py from nbgrad/widgets/description/schema.py: run make write.

export type Kind = "op" | "parameter" | "leaf" | "input" | "constant" | "outside" | "folded" | "failed";

export type ScopeKind = "module" | "iteration" | "part" | "section" | "layer" | "derivative";

export type Opens = "graph" | "steps" | "flow";

export type Form = "card" | "short" | "line" | "name";

export interface Detail {
  term: string;
  text: string;
  role?: "code" | "results" | "gradient" | "unknown" | "parts" | "source";
}

export interface Formula {
  of: string;
  latex: string;
  mathml: string;
}

export interface OpText {
  what: string;
  why: string;
  formulas: Formula[];
  symbols: Formula[];
}

export interface Look {
  facts: string;
  columns: number;
  levels: string;
  cells: string[];
  bars: number[];
  low: string;
  high: string;
  sample: string;
}

export interface Numbers {
  node: string;
  of: "value" | "gradient";
  said: string;
  look: Look | null;
  rows: string[];
}

export interface Supposed {
  node: string;
  said: string;
  notes: string[];
  shape: number[] | null;
  whole: boolean;
  place: number;
  number: string;
  was: string;
  grid: string[];
  texts: Record<string, string[]>;
  edges: Record<string, string>;
  value: Look | null;
  gradient: Look | null;
  result: string;
  nudge: string;
}

export interface Badge {
  kind: "nan" | "unreached" | "inplace" | "failed" | "warning";
  text: string;
}

export interface Bars {
  heights: string;
  text: string;
}

export interface Node {
  id: string;
  kind: Kind;
  root: boolean;
  label: string[];
  numbers: number[];
  full: string;
  cuts: string[];
  about: string;
  row: string | null;
  rule: string | null;
  scope: string | null;
  op: string | null;
  variable: string;
  details: Detail[];
  value: Look | null;
  gradient: Look | null;
  badges: Badge[];
  spoiled: ("value" | "gradient" | "inside")[];
  levels: Record<string, number>;
  holds: string[];
  calls: ScopeKind | null;
  norms: string[];
  past: string;
  bars: Bars | null;
  bytes: number;
  line: number;
}

export interface Reduction {
  text: string;
  expansion: string;
  dims: number[];
  terms: number;
  words: string;
  sums: string[];
  incoming: Look | null;
  reduced: Look | null;
  warning: string | null;
}

export interface Edge {
  id: string;
  source: string;
  target: string;
  input: string;
  label: string;
  back: string | null;
  gradient: string | null;
  mismatch: string | null;
  spoiled: number;
  reduction: Reduction | null;
}

export interface Scope {
  id: string;
  kind: ScopeKind;
  label: string;
  full: string;
  parent: string | null;
  folds: string;
  op: string | null;
  bytes: number;
}

export interface Given {
  edge: string;
  text: string;
  came: string;
  reduction: string | null;
  sum: string | null;
}

export interface Rewrite {
  after: string;
  details: Detail[];
}

export interface Step {
  node: string;
  rules: number[];
  title: string;
  incoming: string;
  given: Given[];
  rewrite?: Rewrite;
}

export interface Overlay {
  key: string;
  label: string;
  low: string;
  high: string;
  classes: string[];
  colours?: string[];
}

export interface Verdict {
  kind: "vanishing" | "exploding" | "none" | "sound";
  scope: string | null;
  text: string;
}

export interface Frame {
  number: number;
  title: string;
  loss?: string;
  value: string;
  structure: number;
}

export interface Curve {
  node: string;
  label: string;
  heights: (number | null)[];
  text: string;
}

export interface Chart {
  title: string;
  text: string;
  low: string;
  high: string;
  guide: number | null;
  numbers: number[];
  curves: Curve[];
}

export interface Difference {
  before: number;
  after: number;
  lines: string[];
}

export interface History {
  frames: Frame[];
  loss: Chart | null;
  charts: Chart[];
  differences: Difference[];
}

export interface MemoryTimeline {
  text: string;
  parts: string[];
  ops: string[];
  sizes: number[][];
  forward: number;
  peak: number;
}

export interface KeptBytes {
  sizes: number[];
  nodes: Record<string, number[]>;
  hidden: string[];
}

export interface HiddenReduction {
  node: string;
  ends: string;
  text: string;
  warning: string | null;
  many: number;
}

export interface HiddenNode {
  node: string;
  label: string;
  words: string;
  norms: string[];
  many: number;
}

export interface Hidden {
  reductions: HiddenReduction[];
  nodes: HiddenNode[];
}

export interface Ranked {
  node: string;
  name: string;
  kind: Kind;
  scope: string | null;
}

export interface RankingColumn {
  key: string;
  title: string;
  cells: string[];
  order: number[];
}

export interface Ranking {
  columns: RankingColumn[];
  rows: Ranked[];
  parents: Record<string, string>;
  note: string;
}

export interface Problem {
  kind: "nan" | "unreached" | "inplace" | "failed" | "warning";
  text: string;
  node: string | null;
}

export interface Question {
  node: string;
  name: string;
  shape: number[];
  rtol: number;
  atol: number;
  offsets: number[];
  seals: number[];
}

export interface Term {
  node: string;
  name: string;
  minus: boolean;
}

export interface LossText {
  node: string;
  name: string;
  text: string;
}

export interface Description {
  version: number;
  name: string;
  summary: string;
  totals: string;
  losses: LossText[];
  notes: string[];
  stopped: boolean;
  nodes: Node[];
  edges: Edge[];
  scopes: Scope[];
  ops: Record<string, OpText>;
  formulas: Record<string, string>;
  steps: Step[];
  overlays: Overlay[];
  colour: string;
  copies: Record<string, string>;
  twins: Record<string, string>;
  verdicts: Verdict[];
  problems: Problem[];
  outcome: string;
  checked: string[];
  history: History;
  hidden: Hidden;
  memory: MemoryTimeline | null;
  living: string[];
  ranking: Ranking;
  questions?: Question[];
  language?: string;
  texts?: Record<string, string>;
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Jump {
  letters: string;
  text: string;
  node: string;
  edges: string[];
  box: Box;
}

export interface Layout {
  width: number;
  height: number;
  nodes: Record<string, Box>;
  edges: Record<string, number[][][]>;
  labels: Record<string, Box>;
  marks: Record<string, Box>;
  scopes: Record<string, Box>;
  jumps: Jump[];
  forms: Record<string, Form>;
  shrunk: Record<string, number>;
}

export interface Picture {
  description: Description;
  layout: Layout;
  direction: "TB" | "LR";
  turned: Layout | null;
  folded: string[];
  opens: Opens;
  stage: number[];
  first: Picture | null;
  large: Picture | null;
  projected: boolean;
}
