import { expect, test } from "vitest";
import { budgetEndText, readTurn, TURN_FIELDS } from "./budget";

test("an untouched form has no limit and no priority", () => {
  expect(readTurn({})).toEqual({
    values: { priority: 0, budget: { steps: null, wall_s: null, device_s: null } },
    errors: {},
  });
});

test("hours are sent as whole seconds", () => {
  const { values } = readTurn({
    "budget.wall_s": "1.5",
    "budget.device_s": "0.3333",
    "budget.steps": "20",
    priority: "-5",
  });
  expect(values).toEqual({ priority: -5, budget: { steps: 20, wall_s: 5400, device_s: 1200 } });
});

test("what the server would refuse is refused at its field", () => {
  const wrong = {
    priority: "101",
    "budget.steps": "0",
    "budget.wall_s": "0.01",
    "budget.device_s": "-1",
  };
  expect(Object.keys(readTurn(wrong).errors)).toEqual(TURN_FIELDS.map((field) => field.name));
});

test("the record of a budget names the limit and how much was used", () => {
  expect(budgetEndText({ limit: "steps", allowed: 2, used: 3 })).toBe(
    "Limit on steps: 3 steps used of 2 steps.",
  );
  expect(budgetEndText({ limit: "wall_s", allowed: 5400, used: 5412.5 })).toBe(
    "Limit on wall time: 1 h 30 min used of 1 h 30 min.",
  );
});
