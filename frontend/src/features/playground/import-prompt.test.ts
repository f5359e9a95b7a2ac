import { expect, test } from "vitest";
import { importedPrompt } from "./import-prompt";

type Calls = Parameters<typeof importedPrompt>[0]["calls"];
const told = (...messages: { role: string; content: unknown }[]) => ({
  calls: [{ messages }] as unknown as Calls,
});

test("the first call's system message and the question that it asked last", () => {
  const from = told(
    { role: "system", content: "be brief" },
    { role: "user", content: "one" },
    { role: "assistant", content: "1" },
    { role: "user", content: [{ type: "text", text: "two" }] },
  );
  expect(importedPrompt(from)).toEqual({ system: "be brief", prompt: "two" });
});

test("what is not there is empty", () => {
  expect(importedPrompt({ calls: [] })).toBeNull();
  expect(importedPrompt(told({ role: "user", content: null }))).toEqual({ system: "", prompt: "" });
});
