// The module of each view in a Jupyter notebook. One model of the kernel holds the script of all views: a notebook saves it once, and a page reads it once.

interface Model {
  get(name: string): string;
  widget_manager: { get_model(id: string): Promise<Model> };
}
interface Widget {
  render(given: object): unknown;
}
type Module = Promise<{ default(): Widget }>;

declare global {
  /** The module of each kernel, by the id of the model that holds it. */
  var nbgradModules: undefined | Record<string, Module>;
}

const SOON = 100; // milliseconds
const PATIENCE = 50; // a host that restores many models may know this one a moment later

async function found(model: Model, id: string, tries = 0): Promise<Model> {
  try {
    return await model.widget_manager.get_model(id);
  } catch (error) {
    if (tries === PATIENCE) throw error;
    await new Promise((done) => setTimeout(done, SOON));
    return found(model, id, tries + 1);
  }
}

async function load(model: Model, id: string): Module {
  const held = await found(model, id);
  document.head.append(Object.assign(document.createElement("style"), { textContent: held.get("sheet") }));
  return import(URL.createObjectURL(new Blob([held.get("script")], { type: "text/javascript" })));
}

export default () => {
  let widget: Widget;
  return {
    async initialize({ model }: { model: Model }) {
      const id = model.get("code").replace("IPY_MODEL_", "");
      const modules = (globalThis.nbgradModules ??= {});
      widget = (await (modules[id] ??= load(model, id))).default();
    },
    render: (given: object) => widget.render(given),
  };
};
