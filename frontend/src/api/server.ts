// What this server is: its version names the client that people install from it.
import { queryOptions } from "@tanstack/react-query";
import { get } from "./client";
import type { Server } from "./types";

export const serverQuery = queryOptions({
  queryKey: ["server"],
  queryFn: () => get<Server>("/v1/server"),
  staleTime: Infinity,
});
