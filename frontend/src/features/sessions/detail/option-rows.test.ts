import { expect, test } from "vitest";
import schema from "../../../api/session-config.json";
import { configFields, type OptionSchema, type OptionValue } from "../config-fields";
import { optionRows } from "./option-rows";

const fields = configFields(schema as unknown as OptionSchema);
const defaults: Record<string, OptionValue> = Object.fromEntries(
  fields.map((field) => [field.name, field.default]),
);

test("every option of the session is there, with its value and its meaning", () => {
  const rows = optionRows(fields, defaults);
  expect(rows.map((row) => row.name).sort()).toEqual(fields.map((field) => field.name).sort());
  expect(rows.every((row) => row.description && !row.isChanged)).toBe(true);
  expect(rows.find((row) => row.name === "max_steps")?.value).toBe("not set");
});

test("what differs from its default comes first and shows the default", () => {
  const rows = optionRows(fields, { ...defaults, learning_rate: 1e-5, loss: "dapo", max_steps: 4 });
  expect(rows.slice(0, 3).map((row) => [row.name, row.value, row.default])).toEqual([
    ["learning_rate", "0.00001", "not set"],
    ["loss", "dapo", "grpo"],
    ["max_steps", "4", "not set"],
  ]);
  expect(rows.filter((row) => row.isChanged)).toHaveLength(3);
});

test("what the server decided of a session is not shown as changed", () => {
  const resolved = { ...defaults, learning_rate: 2e-5, loss: "dapo", normalize_advantage: true };
  const rows = optionRows(fields, resolved, "episodes", ["learning_rate", "normalize_advantage"]);
  expect(rows.filter((row) => row.isChanged).map((row) => row.name)).toEqual(["loss"]);
  expect(rows.find((row) => row.name === "learning_rate")?.value).toBe("0.00002");
});

test("an option that this page's schema does not know is shown all the same", () => {
  expect(optionRows(fields, { ...defaults, of_tomorrow: true })[0]).toMatchObject({
    name: "of_tomorrow",
    value: "true",
    isChanged: true,
    default: "",
  });
});

test("a session of tinker clients has the options of its runtime alone", () => {
  const resolved = { ...defaults, learning_rate: 2e-4, normalize_advantage: true, lora_rank: 32 };
  const rows = optionRows(fields, resolved, "tinker");
  const changed = rows.filter((row) => row.isChanged);
  expect(changed.map((row) => [row.name, row.value])).toEqual([["lora_rank", "32"]]);
  expect(changed[0]?.description).toBe("The largest rank that a model of its clients may have.");
  expect(rows.map((row) => row.name)).toContain("max_context_length");
});

test("what an option without a value means is told in the word that stands there", () => {
  const rate = optionRows(fields, defaults).find((row) => row.name === "learning_rate");
  expect(rate?.description).toContain("Not set: by the model's size");
});

test("a map of names is shown name by name", () => {
  const rows = optionRows(fields, {
    ...defaults,
    model_names: { "gpt-4o": "planner", o3: "judge" },
  });
  expect(rows[0]).toMatchObject({
    name: "model_names",
    value: "gpt-4o: planner, o3: judge",
    default: "own",
    isChanged: true,
  });
});
