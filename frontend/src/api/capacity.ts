// What the server has to run sessions on, and who waits.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";

const REFRESH_MS = 5_000;

/** Where sessions can run: this machine and the clusters that the operator has named. */
export const placesQuery = queryOptions({
  queryKey: ["places"],
  queryFn: () => unwrap(api.GET("/v1/places")),
  refetchInterval: REFRESH_MS,
});

export const capacityQuery = queryOptions({
  queryKey: ["capacity"],
  queryFn: () => unwrap(api.GET("/v1/capacity")),
  refetchInterval: REFRESH_MS,
});
