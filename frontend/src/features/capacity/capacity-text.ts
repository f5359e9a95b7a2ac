// What is said of devices and of the queue.
import type { Capacity } from "../../api/types";
import { number } from "../../ui/format";

type Device = NonNullable<Capacity["server"]>["devices"][number];

export function devicesText(devices: readonly Device[]): string {
  const free = devices.filter((device) => device.used_by === "nobody").length;
  return free === 0 ? "all in use" : `${number(free)} free`;
}

/** When the project's next session has its turn. */
export function nextText(waiting: Capacity["waiting"]): string {
  const next = waiting.find((row) => !row.is_held);
  if (next)
    return next.position === 1
      ? "the next one to start"
      : `the next one is at position ${number(next.position)} of the queue`;
  return waiting.length === 0 ? "nothing waits" : "held by the quota of devices";
}
