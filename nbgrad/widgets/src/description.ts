// Written from nbgrad/widgets/description.py by tests/widgets/test_typescript.py; a test compares the two.

export type Kind = "op" | "parameter" | "leaf" | "constant" | "outside" | "folded";

export interface Detail {
  term: string;
  text: string;
}

export interface Formula {
  of: string;
  latex: string;
  mathml: string;
}

export interface Node {
  id: string;
  kind: Kind;
  root: boolean;
  label: string[];
  scope: string | null;
  details: Detail[];
  formulas: Formula[];
}

export interface Reduction {
  text: string;
  dims: number[];
  terms: number;
}

export interface Edge {
  id: string;
  source: string;
  target: string;
  input: string;
  label: string;
  gradient: string | null;
  reduction: Reduction | null;
}

export interface Scope {
  id: string;
  label: string;
  parent: string | null;
}

export interface Description {
  version: number;
  name: string;
  summary: string;
  notes: string[];
  nodes: Node[];
  edges: Edge[];
  scopes: Scope[];
}

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  width: number;
  height: number;
  nodes: Record<string, Box>;
  edges: Record<string, number[][][]>;
  marks: Record<string, Box>;
  scopes: Record<string, Box>;
}

export interface Picture {
  description: Description;
  layout: Layout;
}
