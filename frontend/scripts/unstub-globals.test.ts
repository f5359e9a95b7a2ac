import { afterAll, expect, test, vi } from "vitest";

afterAll(() => {
  expect(globalThis).not.toHaveProperty("aGlobalOfThisTest");
});

test("what a test puts in place of a global is gone before the next file is loaded", () => {
  vi.stubGlobal("aGlobalOfThisTest", {});
  expect(globalThis).toHaveProperty("aGlobalOfThisTest");
});
