import { expect, test } from "vitest";
import { memoryParts, memoryFit } from "./plan";

const memory = { total_bytes: 100, engines: 1, engine_bytes: 40, trainer_bytes: 20, optimizer_bytes: 10, reference_bytes: 0, handover_bytes: 5, activation_bytes: 15, process_bytes: 10 };

test("a plan fits, fits but for its upper bound, or does not", () => {
  const at = (memory_limit_bytes: number | null) => memoryFit({ memory, memory_limit_bytes });
  expect([at(100), at(99), at(85), at(84), at(null)]).toEqual(["fits", "tight", "tight", "does not fit", "unknown"]);
  expect(memoryFit({ memory: null, memory_limit_bytes: 100 })).toBe("unknown");
});

test("the parts that are shown make up the whole", () => {
  const parts = memoryParts(memory);
  expect(parts.map(([name]) => name)).not.toContain("Reference");
  expect(parts[0]).toEqual(["Engine", 40]);
  expect(memoryParts({ ...memory, engines: 7 })[0]).toEqual(["7 engines, at most", 40]);
  expect(parts.reduce((sum, [, size]) => sum + size, 0)).toBe(memory.total_bytes);
});
