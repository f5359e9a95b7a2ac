// Who works in the project.
import { queryOptions } from "@tanstack/react-query";
import { get, patch, post, remove } from "./client";
import type { Items, Member, Project, Role } from "./types";

export const membersQuery = queryOptions({
  queryKey: ["members"],
  queryFn: () => get<Items<Member>>("/v1/members"),
});

export function inviteMember(body: { email: string; role: Role }): Promise<Member> {
  return post("/v1/members", body);
}

export function changeRole({ id, role }: { id: string; role: Role }): Promise<Member> {
  return patch(`/v1/members/${id}`, { role });
}

export function removeMember(id: string): Promise<void> {
  return remove(`/v1/members/${id}`);
}

export function renameProject({ id, name }: { id: string; name: string }): Promise<Project> {
  return patch(`/v1/projects/${id}`, { name });
}
