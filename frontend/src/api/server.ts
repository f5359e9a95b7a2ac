// What this server is: its version names the client that people install from it.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";

export const serverQuery = queryOptions({
  queryKey: ["server"],
  queryFn: () => unwrap(api.GET("/v1/server")),
  staleTime: Infinity,
});
