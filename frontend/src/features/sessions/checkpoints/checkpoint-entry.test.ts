import { expect, test } from "vitest";
import { chatSnippet, furtherText } from "./checkpoint-entry";

test("the optimizer goes on from a state of a run alone: what a Tinker client saved gives its weights", () => {
  expect(furtherText({ kind: "state", tinker_path: null })).toBe(
    "A new session begins with its weights and its optimizer.",
  );
  expect(furtherText({ kind: "model", tinker_path: null })).toBe(
    "A new session begins with its weights.",
  );
  expect(furtherText({ kind: "state", tinker_path: "tinker://tnk_1:train:0/weights/a" })).toBe(
    "A new session begins with its weights.",
  );
  expect(
    furtherText({ kind: "model", tinker_path: "tinker://tnk_1:train:0/external_weights/a" }),
  ).toBeNull(); // refused: no files of a model
});

test("a sampler's weights are asked by their path, through the dialect of OpenAI, with a key of the project", () => {
  const snippet = chatSnippet("https://lab.example", "tinker://tnk_1:train:0/sampler_weights/a");
  expect(snippet).toContain(
    'curl https://lab.example/oai/api/v1/chat/completions \\\n  -H "Authorization: Bearer $TINKER_API_KEY"',
  );
  expect(snippet).toContain('"model": "tinker://tnk_1:train:0/sampler_weights/a"');
});
