// What the server has to run sessions on, and who waits.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";

const REFRESH_MS = 5_000;

export const capacityQuery = queryOptions({
  queryKey: ["capacity"],
  queryFn: () => unwrap(api.GET("/v1/capacity")),
  refetchInterval: REFRESH_MS,
});
