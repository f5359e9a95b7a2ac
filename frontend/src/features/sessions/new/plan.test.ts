import { expect, test } from "vitest";
import type { MemoryPlace } from "../../../api/types";
import { memoryParts, memoryFit, placeParts, placeRuns } from "./plan";

const memory = {
  total_bytes: 100,
  engines: 1,
  engine_bytes: 40,
  trainer_bytes: 20,
  optimizer_bytes: 10,
  reference_bytes: 0,
  handover_bytes: 5,
  activation_bytes: 12,
  head_bytes: 3,
  process_bytes: 10,
  places: [] as MemoryPlace[],
};

const parts = {
  weights_bytes: 10,
  gradient_bytes: 0,
  optimizer_bytes: 20,
  reference_bytes: 0,
  activation_bytes: 12,
  head_bytes: 3,
  handover_bytes: 0,
  engine_weights_bytes: 0,
  cache_bytes: 0,
  process_bytes: 0,
};
const place: MemoryPlace = {
  name: "GPU 2 of 2",
  engines: 0,
  ranks: 1,
  total_bytes: 45,
  available_bytes: 45,
  ...parts,
};

test("a plan fits, fits but for its upper bound, or does not", () => {
  const at = (memory_limit_bytes: number | null) => memoryFit({ memory, memory_limit_bytes });
  expect([at(100), at(99), at(85), at(84), at(null)]).toEqual([
    "fits",
    "tight",
    "tight",
    "does not fit",
    "unknown",
  ]);
  expect(memoryFit({ memory: null, memory_limit_bytes: 100 })).toBe("unknown");
});

test("the parts that are shown make up the whole", () => {
  const parts = memoryParts(memory);
  expect(parts.map(([name]) => name)).not.toContain("Reference");
  expect(parts[0]).toEqual(["Engine", 40]);
  expect(memoryParts({ ...memory, engines: 7 })[0]).toEqual(["7 engines, at most", 40]);
  expect(parts.reduce((sum, [, size]) => sum + size, 0)).toBe(memory.total_bytes);
});

test("a plan fits as the place that is worst off, and places of which nothing is known do not count", () => {
  const fit = (...available: (number | null)[]) =>
    memoryFit({
      memory: {
        ...memory,
        places: available.map((bytes) => ({ ...place, available_bytes: bytes })),
      },
      memory_limit_bytes: null,
    });
  expect([fit(45, null), fit(45, 44), fit(44, 29), fit(null)]).toEqual([
    "fits",
    "tight",
    "does not fit",
    "unknown",
  ]);
});

test("a place names what runs on it, and its parts by size", () => {
  expect(placeRuns(place)).toBe("rank");
  expect(placeRuns({ ...place, ranks: 2, engine_weights_bytes: 5 })).toBe("engine, 2 ranks");
  expect(placeRuns({ ...place, ranks: 0 })).toBe("");
  expect(placeParts(place).map(([name]) => name)).toEqual([
    "optimizer",
    "activations, at most",
    "weights",
    "head, at most",
  ]);
});
