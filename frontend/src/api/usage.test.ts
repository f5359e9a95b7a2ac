import { InfiniteQueryObserver, QueryClient } from "@tanstack/react-query";
import { expect, test } from "vitest";
import type { UsagePage } from "./types";
import { usageQuery } from "./usage";

test("who has loaded more pages asks for each of them less often", () => {
  const client = new QueryClient();
  const interval = (loaded: number) => {
    const pages = Array.from({ length: loaded }, () => ({ items: [] }) as unknown as UsagePage);
    client.setQueryData(usageQuery.queryKey, { pages, pageParams: pages.map(() => "") });
    const { refetchInterval } = new InfiniteQueryObserver(client, usageQuery).options;
    return typeof refetchInterval === "function"
      ? refetchInterval(client.getQueryCache().find({ queryKey: usageQuery.queryKey }) as never)
      : refetchInterval;
  };
  expect([interval(1), interval(5)]).toEqual([15_000, 75_000]);
});
