import { expect, test } from "vitest";
import { waitsFor } from "./queued-notice";

const free = { used: 0, limit: null };
const row = {
  session_id: "ses_1",
  name: "",
  since: "2030-01-01T00:00:00Z",
  position: 2,
  is_held: true,
};
const capacity = {
  is_draining: false,
  waiting: [row],
  quotas: { devices: { used: 2, limit: 2 }, sessions: free, storage_bytes: free },
  max_runtimes: 4,
};

test("a queued run says what it waits for: an operator, the project's quota, or a runtime", () => {
  expect(waitsFor("ses_1", undefined)).toBe("It starts by itself when a runtime is free.");
  expect(waitsFor("ses_2", capacity)).toBe(
    "It starts by itself when a runtime is free. 4 may run at once, of all projects.",
  );
  expect(waitsFor("ses_1", capacity)).toBe(
    "The project uses 2 of the 2 devices that it may have. It starts by itself when one of the project’s sessions ends.",
  );
  const none = { ...capacity.quotas, devices: { used: 0, limit: 2 } };
  expect(waitsFor("ses_1", { ...capacity, quotas: none })).toMatch(
    /^It needs more than the 2 devices/,
  );
  expect(
    waitsFor("ses_1", {
      ...capacity,
      quotas: none,
      waiting: [row, { ...row, session_id: "ses_2", is_held: false }],
    }),
  ).toMatch(/^The project uses 0 of the 2/);
  expect(waitsFor("ses_1", { ...capacity, is_draining: true })).toMatch(/^The server is draining/);
});
