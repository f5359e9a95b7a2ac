import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { MemoryRouter } from "react-router";
import { beforeEach, expect, test, vi } from "vitest";
import type { CheckpointProvenance } from "../../../api/types";
import { ProvenanceFacts } from "./provenance";

const HERE = "ses_1";
const MADE = {
  checkpoint_id: "ckp_9",
  session_id: HERE,
  base_model: "SmolLM2-135M-Instruct",
  config_sha256: "0123456789abcdef".repeat(4),
  committed_at: "2026-11-20T10:00:00Z",
  hashes_checked: true,
  ancestry_end: "base_model",
  loads_recorded: true,
  ancestors: [
    {
      checkpoint_id: "ckp_8",
      session_id: HERE,
      kind: "state",
      step: 10,
      tinker_path: null,
      is_deleted: true,
    },
    {
      checkpoint_id: "ckp_7",
      session_id: "ses_0",
      kind: "state",
      step: 3,
      tinker_path: "tinker://a\u202e",
    },
    {
      checkpoint_id: null,
      session_id: null,
      kind: null,
      step: null,
      tinker_path: "tinker://theirs",
    },
  ],
} as unknown as CheckpointProvenance;

beforeEach(() => {
  vi.stubGlobal("window", { isSecureContext: true });
});

function shown(provenance: CheckpointProvenance): string {
  const page = createElement(MemoryRouter, null, createElement(ProvenanceFacts, { provenance }));
  return renderToStaticMarkup(page)
    .replaceAll(/<[^>]+>/g, "|")
    .replaceAll(/\|+/g, "|");
}

test("the states that it came from stand in order, the base model last", () => {
  const text = shown(MADE);
  expect(text).toContain(
    "|state of step 10, deleted|state of step 3 of another run|, |tinker://a⟨U+202E⟩|",
  );
  expect(text).toContain(
    "|tinker://theirs|, not in this project or deleted|SmolLM2-135M-Instruct|, base model|",
  );
  expect(text).toContain("|0123456789abcdef|");
  expect(text).toContain("compared with the stored files");
});

test("what is uploaded or not known is not told as the base model, nor later loads as none", () => {
  expect(shown({ ...MADE, ancestors: [], ancestry_end: "upload" })).toContain(
    "files that a client uploaded, for |SmolLM2-135M-Instruct|",
  );
  expect(shown({ ...MADE, ancestry_end: "unknown" })).toContain("what was before is not known");
  expect(shown({ ...MADE, ancestry_end: "unknown" })).not.toContain("base model");
  expect(shown({ ...MADE, loads_recorded: false })).toContain("loaded later is not recorded");
  expect(shown(MADE)).not.toContain("loaded later");
});

test("hashes that the server has not compared are not told as compared", () => {
  expect(shown({ ...MADE, ancestors: [], hashes_checked: false })).toContain(
    "still to be compared",
  );
});
