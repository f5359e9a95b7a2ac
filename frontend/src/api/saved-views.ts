// Saved views: how the charts of a run are looked at, by name, for everybody in the project.
import { queryOptions } from "@tanstack/react-query";
import { api, unwrap } from "./client";
import type { SavedView } from "./types";

export const savedViewsQuery = queryOptions({
  queryKey: ["saved-views"],
  queryFn: () => unwrap(api.GET("/v1/saved-views")),
  staleTime: 30_000,
});

export function createView(body: { name: string; address: string }): Promise<SavedView> {
  return unwrap(api.POST("/v1/saved-views", { body: { ...body, pinned: false } }));
}

export function updateView({
  id,
  ...body
}: Pick<SavedView, "id"> &
  Partial<Pick<SavedView, "name" | "address" | "pinned">>): Promise<SavedView> {
  return unwrap(
    api.PATCH("/v1/saved-views/{view_id}", { params: { path: { view_id: id } }, body }),
  );
}

export function deleteView(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/saved-views/{view_id}", { params: { path: { view_id: id } } }));
}
