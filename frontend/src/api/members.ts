// Who works in the project.
import { queryOptions } from "@tanstack/react-query";
import { unwrap, api } from "./client";
import type { Member, Project, Role } from "./types";

export const membersQuery = queryOptions({
  queryKey: ["members"],
  queryFn: () => unwrap(api.GET("/v1/members")),
});

export function inviteMember(body: { email: string; role: Role }): Promise<Member> {
  return unwrap(api.POST("/v1/members", { body }));
}

export function changeRole({ id, role }: { id: string; role: Role }): Promise<Member> {
  return unwrap(
    api.PATCH("/v1/members/{member_id}", { params: { path: { member_id: id } }, body: { role } }),
  );
}

export function removeMember(id: string): Promise<void> {
  return unwrap(api.DELETE("/v1/members/{member_id}", { params: { path: { member_id: id } } }));
}

export function renameProject({ id, name }: { id: string; name: string }): Promise<Project> {
  return unwrap(
    api.PATCH("/v1/projects/{project_id}", {
      params: { path: { project_id: id } },
      body: { name },
    }),
  );
}
