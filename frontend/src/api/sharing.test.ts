import { expect, test } from "vitest";
import { ApiError } from "./errors";
import { sharedRefreshMs } from "./sharing";

test("a shared run is asked for until it has ended or its link was refused, and again after a server that was away", () => {
  expect(sharedRefreshMs(undefined, null)).toBe(5000);
  expect(sharedRefreshMs("ready", null)).toBe(5000);
  expect(sharedRefreshMs("ready", new ApiError(0, "unreachable", "away"))).toBe(5000);
  expect(sharedRefreshMs("ready", new ApiError(503, "unavailable", "away"))).toBe(5000);
  expect(sharedRefreshMs("ready", new ApiError(401, "unauthenticated", "revoked"))).toBe(false);
  expect(sharedRefreshMs("failed", null)).toBe(false);
});
