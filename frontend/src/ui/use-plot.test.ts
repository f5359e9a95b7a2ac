import { expect, test, vi } from "vitest";
import { retried } from "./use-plot";

test("what the network lost is asked for again, once for all who wait", async () => {
  const load = vi.fn().mockRejectedValueOnce(new Error("offline")).mockResolvedValue("curves");
  const wanted = retried(load, [1, 1]);
  expect(await Promise.all([wanted(), wanted()])).toEqual(["curves", "curves"]);
  expect(await wanted()).toBe("curves");
  expect(load).toHaveBeenCalledTimes(2);
});

test("whoever asks after the last try begins anew", async () => {
  const load = vi.fn().mockRejectedValue(new Error("offline"));
  const wanted = retried(load, [1]);
  await expect(wanted()).rejects.toThrow("offline");
  expect(load).toHaveBeenCalledTimes(2);
  load.mockResolvedValue("curves");
  expect(await wanted()).toBe("curves");
});
