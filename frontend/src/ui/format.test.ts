import { expect, test } from "vitest";
import {
  ago,
  bytes,
  dateTime,
  money,
  number,
  price,
  restartsText,
  seconds,
  span,
  timeOfDay,
  timeWithin,
} from "./format";

test("numbers keep what matters and nothing that was not measured", () => {
  expect([0, 12, 0.123456, 0.00002, 12345.6, null, NaN].map(number)).toEqual([
    "0",
    "12",
    "0.1235",
    "2e-5",
    "12,346",
    "–",
    "–",
  ]);
});

test("sizes are in binary units", () => {
  expect([512, 1536, 269_060_552, null].map(bytes)).toEqual(["512 B", "1.50 KiB", "257 MiB", "–"]);
});

test("durations and ages read as people say them", () => {
  expect(seconds(3.14159)).toBe("3.14 s");
  expect(seconds(125)).toBe("2 min 5 s");
  const now = Date.parse("2030-01-02T00:00:00Z");
  expect(ago("2030-01-01T23:59:50Z", now)).toBe("just now");
  expect(ago("2030-01-01T21:00:00Z", now)).toBe("3 h ago");
});

test("lengths of time keep their two largest units", () => {
  expect([0, 45, 60, 90, 5400, 86_399, 97_200].map(span)).toEqual([
    "0 s",
    "45 s",
    "1 min",
    "1 min 30 s",
    "1 h 30 min",
    "23 h 59 min",
    "1 d 3 h",
  ]);
});

test("a time within more than a day has its date", () => {
  const at = "2030-01-02T10:05:00Z";
  expect(timeWithin(at, 3600)).toBe(timeOfDay(at));
  expect(timeWithin(at, 3 * 86_400)).toBe(dateTime(at));
});

test("restarts are counted in words that fit", () => {
  expect([0, 1, 2].map(restartsText)).toEqual(["no restart", "1 restart", "2 restarts"]);
});

test("an amount below the smallest unit of its currency says something, and a price is what was set", () => {
  expect([money(2.5, "EUR"), money(0.0031, "EUR"), money(0.4, "JPY"), money(12.4, "JPY")]).toEqual([
    "€2.50",
    "€0.0031",
    "¥0.4",
    "¥12",
  ]);
  expect([price(0.0149, "USD"), price(2.405, "USD"), price(2, "USD"), price(0.4, "JPY")]).toEqual([
    "$0.0149",
    "$2.405",
    "$2.00",
    "¥0.4",
  ]);
});
