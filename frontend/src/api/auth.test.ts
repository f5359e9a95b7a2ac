import { expect, test } from "vitest";
import { authError } from "./auth";
import { apiError } from "./errors";

test("a refused field is named", () => {
  const error = authError(400, {
    errors: [{ param: "password", message: "This password is too short." }],
  });
  expect(error.fields).toEqual({ password: "This password is too short." });
  expect(error.message).toBe("");
});

test("an unconfirmed address is asked to be confirmed, not called a failure", () => {
  const error = authError(401, {
    data: { flows: [{ id: "login" }, { id: "verify_email", is_pending: true }] },
  });
  expect(error.code).toBe("verify_email");
  expect(error.hint).toContain("link");
});

test("a second factor that is asked for is the next step, not a failure", () => {
  const error = authError(401, {
    data: { flows: [{ id: "login" }, { id: "mfa_authenticate", is_pending: true }] },
  });
  expect(error.code).toBe("second_factor");
});

test("the API's error body keeps its hint and its fields", () => {
  const error = apiError(400, {
    error: {
      code: "invalid_request",
      message: "Not valid.",
      hint: "See the fields.",
      details: { fields: [{ field: "config.grpo_n", problem: "too small" }] },
    },
    request_id: "r1",
  });
  expect(error).toMatchObject({
    code: "invalid_request",
    hint: "See the fields.",
    requestId: "r1",
    fields: { "config.grpo_n": "too small" },
  });
});

test("a response that is no error body still has a message", () => {
  expect(apiError(502, null)).toMatchObject({
    code: "unexpected",
    message: "The server returned 502.",
  });
});
