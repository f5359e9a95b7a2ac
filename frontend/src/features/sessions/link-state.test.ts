import { expect, test } from "vitest";
import { timeOfDay } from "../../ui/format";
import { linkText } from "./link-state";

const AT = Date.parse("2030-01-01T12:03:05Z");
const TIME = timeOfDay("2030-01-01T12:03:05Z");

test("only a channel that is open and heard is called live", () => {
  expect(linkText({ status: "live", attempt: 0 }, null, null)).toEqual({
    words: "Live",
    tone: "good",
  });
  // Browsers leave a socket open when the network goes: it stays "live" until its silence is noticed.
  expect(linkText({ status: "live", attempt: 0 }, null, AT)).toEqual({
    words: `Offline, stale since ${TIME}`,
    tone: "warn",
  });
  expect(linkText({ status: "refused", reason: "No." }, AT, AT)).toEqual({
    words: "Not live",
    tone: "bad",
  });
});

test("while the line is away the page says since when it is stale", () => {
  expect(linkText({ status: "connecting", attempt: 0 }, null, null).words).toBe("Connecting…");
  expect(linkText({ status: "waiting", attempt: 1, delayMs: 500 }, AT, null).words).toBe(
    `Reconnecting…, stale since ${TIME}`,
  );
  expect(linkText({ status: "connecting", attempt: 1 }, AT, null).words).toBe(
    `Reconnecting…, stale since ${TIME}`,
  );
});
