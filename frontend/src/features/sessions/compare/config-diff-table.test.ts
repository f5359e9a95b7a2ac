import { expect, test } from "vitest";
import type { Session } from "../../../api/types";
import { diffRows } from "./config-diff-table";

function run(base_model: string, config: Record<string, unknown>): Session {
  return { base_model, budget: { device_s: null }, config } as unknown as Session;
}

test("options that differ stand first, with the value of each run in its order", () => {
  const rows = diffRows([
    run("a", { grpo_n: 4, learning_rate: 1e-6 }),
    run("a", { grpo_n: 8, learning_rate: 1e-6, new_option: true }),
  ]);
  expect(rows.slice(0, 2)).toEqual([
    { name: "grpo_n", values: ["4", "8"], differs: true },
    { name: "new_option", values: ["", "true"], differs: true },
  ]);
  expect(rows.slice(2).every((row) => !row.differs)).toBe(true);
  expect(rows.map((row) => row.name)).toContain("base model");
});

test("one run alone differs in nothing", () => {
  expect(diffRows([run("a", { grpo_n: 4 })]).some((row) => row.differs)).toBe(false);
});
