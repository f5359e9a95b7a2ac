import { expect, test } from "vitest";
import { apiError } from "../../../api/errors";
import { serverErrors } from "./form-errors";
import { refusedPlan } from "./plan";

const memory = {
  total_bytes: 9,
  engines: 1,
  engine_bytes: 1,
  trainer_bytes: 1,
  optimizer_bytes: 1,
  reference_bytes: 1,
  handover_bytes: 1,
  activation_bytes: 1,
  head_bytes: 0,
  process_bytes: 1,
  places: [],
};

function refusal(code: string, details: Record<string, unknown>) {
  return apiError(422, { error: { code, message: "No.", hint: "", details }, request_id: "r" });
}

test("a refused option is shown at its field, a budget at its own", () => {
  const fields = [
    { field: "config.max_tokens", problem: "too long" },
    { field: "budget.steps", problem: "too few" },
  ];
  expect(serverErrors(refusal("invalid_request", { fields }))).toEqual({
    max_tokens: "too long",
    "budget.steps": "too few",
  });
});

test("a model that does not fit is refused at the model, with what it would need", () => {
  const error = refusal("does_not_fit", { memory, memory_limit_bytes: 5 });
  expect(serverErrors(error)).toEqual({ base_model: "No." });
  expect(refusedPlan(error)).toEqual({ memory, memory_limit_bytes: 5 });
});

test("other refusals name no field and show no plan", () => {
  expect(serverErrors(refusal("quota_exceeded", {}))).toEqual({});
  expect(refusedPlan(refusal("quota_exceeded", {}))).toBeNull();
});
