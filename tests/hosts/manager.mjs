// The widget manager of a host, as a script for its frame: html-manager, with anywidget, and comms that lead to a kernel.

import * as base from "@jupyter-widgets/base";
import { HTMLManager } from "@jupyter-widgets/html-manager/lib/htmlmanager";

// anywidget's module is written for require.js: these hosts load it with their own.
let anywidget;
globalThis.define = (_needs, make) => (anywidget = make(base));

/** A comm of the frame. The function `nbgradKernel` of the page delivers a message and returns the answers to it. */
class Comm {
  target_name = "jupyter.widget";
  #heard = [];
  #closed = [];
  #count = 0;

  constructor(id) {
    this.comm_id = id;
  }
  on_msg(callback) {
    this.#heard.push(callback);
  }
  on_close(callback) {
    this.#closed.push(callback);
  }
  send(data, callbacks, _metadata, buffers = []) {
    if (this.cut) throw new Error("the connection is cut");
    const id = `${this.comm_id}-${++this.#count}`;
    const bytes = buffers.map((one) => [...new Uint8Array(one.buffer ?? one)]);
    void globalThis.nbgradKernel(this.comm_id, JSON.parse(JSON.stringify(data)), bytes).then((answers) => {
      for (const answer of answers) this.hear(answer, id);
      callbacks?.iopub?.status?.({ content: { execution_state: "idle" } });
    });
    return id;
  }
  hear({ data, buffers }, parent = "") {
    const message = { content: { comm_id: this.comm_id, data }, metadata: {}, parent_header: { msg_id: parent } };
    for (const callback of this.#heard) callback({ ...message, buffers: buffers.map((one) => new DataView(Uint8Array.from(one).buffer)) });
  }
  close() {
    for (const callback of this.#closed) callback({ content: { comm_id: this.comm_id, data: {} } });
    return "";
  }
}

const manager = new HTMLManager({ loader: async () => anywidget });
const comms = {};

globalThis.host = {
  manager,
  comms,
  /** Make the models of a saved notebook, which no kernel knows. */
  restore: (state) => manager.set_state({ version_major: 2, version_minor: 0, state }),
  /** The states of all models, as a notebook saves them. */
  save: async () => (await manager.get_state({ drop_defaults: false })).state,
  /** Make a model as a kernel opens it: its state and its buffers, in the format of a saved notebook. */
  async open(id, { model_name, model_module, model_module_version, state, buffers = [] }) {
    for (const { path, data } of buffers) state[path[0]] = new DataView(Uint8Array.from(atob(data), (one) => one.charCodeAt(0)).buffer);
    comms[id] = new Comm(id);
    await manager.new_model({ model_name, model_module, model_module_version, model_id: id, comm: comms[id] }, state);
  },
  /** Let a model know that its kernel is gone. */
  async cut(id) {
    comms[id].cut = true;
    (await manager.get_model(id)).comm_live = false;
  },
  /** Connect a model to another comm of the same name, as after a connection that was lost. */
  async reconnect(id) {
    const model = await manager.get_model(id);
    model.comm = comms[id] = new Comm(id);
    model.comm.on_msg((message) => model._handle_comm_msg(message));
    model.comm_live = true;
  },
  async show(id, element) {
    const model = await manager.get_model(id);
    await manager.display_view(manager.create_view(model), element);
  },
};
