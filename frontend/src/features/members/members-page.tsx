// Who works in the project: roles, invitations, and the project's name.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { accountQuery } from "../../api/account";
import { changeRole, membersQuery, removeMember } from "../../api/members";
import { currentProject } from "../../api/project";
import type { Member, Role } from "../../api/types";
import { Badge } from "../../ui/badge";
import { Button } from "../../ui/button";
import { Confirm } from "../../ui/dialog";
import { Options } from "../../ui/choices";
import { inputClass } from "../../ui/field";
import { ago, dateTime } from "../../ui/format";
import { Loading } from "../../ui/loading";
import { ErrorNotice } from "../../ui/notice";
import { PageHeader } from "../../ui/panel";
import { SortedTable, type SortedColumn } from "../../ui/sorted-table";
import { cell, headCell } from "../../ui/table";
import { InviteMember, ROLES } from "./invite-member";
import { RenameProject } from "./rename-project";

/** From this many on the list has a search box. */
const SEARCHED_FROM = 10;

export const MEMBER_COLUMNS: SortedColumn<Member>[] = [
  { name: "E-mail", value: (member) => member.email, searched: true },
  { name: "Role", value: (member) => member.role, searched: true },
  { name: "Since", value: (member) => member.created_at },
  { name: "State", value: (member) => (member.is_invited ? "invited" : "active"), searched: true },
  { name: "" },
];

export function MembersPage() {
  const { data: account } = useQuery(accountQuery);
  const { data, error, isPending } = useQuery(membersQuery);
  const project = account && currentProject(account);
  const isOwner = project?.role === "owner";
  return (
    <>
      <PageHeader title="Members">
        {project && isOwner && <RenameProject project={project} />}
        {isOwner && <InviteMember />}
      </PageHeader>
      <ErrorNotice error={error} />
      <div className="rounded-lg border border-line bg-surface">
        {isPending && <Loading />}
        {data && (
          <MemberTable members={data.items} isOwner={isOwner} myEmail={account?.email ?? ""} />
        )}
      </div>
    </>
  );
}

function MemberTable({
  members,
  isOwner,
  myEmail,
}: {
  members: Member[];
  isOwner: boolean;
  myEmail: string;
}) {
  const client = useQueryClient();
  const [text, setText] = useState("");
  const onSettled = () => client.invalidateQueries();
  const change = useMutation({
    meta: { done: "The role is changed" },
    mutationFn: changeRole,
    onSettled,
  });
  const remove = useMutation({ meta: { done: "Removed" }, mutationFn: removeMember, onSettled });
  return (
    <>
      <ErrorNotice error={change.error ?? remove.error} />
      {members.length >= SEARCHED_FROM && (
        <search className="block border-b border-line p-3">
          <input
            type="search"
            aria-label="Address, role or state contains"
            placeholder="Address, role or state contains…"
            className={`${inputClass} max-w-64`}
            value={text}
            onChange={(event) => {
              setText(event.target.value);
            }}
          />
        </search>
      )}
      <SortedTable label="Members" head={MEMBER_COLUMNS} rows={members} containing={text}>
        {(member) => {
          const isMe = member.email === myEmail;
          return (
            <tr key={member.id}>
              <th scope="row" className={`${headCell} text-ink`}>
                {member.email} {isMe && <span className="font-normal text-muted">(you)</span>}
              </th>
              <td className={cell}>
                {isOwner ? (
                  <select
                    aria-label={`Role of ${member.email}`}
                    className={`${inputClass} max-w-32 min-w-28`}
                    value={member.role}
                    onChange={(event) => {
                      change.mutate({ id: member.id, role: event.target.value as Role });
                    }}
                  >
                    <Options of={ROLES} />
                  </select>
                ) : (
                  member.role
                )}
              </td>
              <td className={`${cell} whitespace-nowrap`} title={dateTime(member.created_at)}>
                {ago(member.created_at)}
              </td>
              <td className={cell}>
                {member.is_invited ? (
                  <Badge tone="warn">invited</Badge>
                ) : (
                  <Badge tone="good">active</Badge>
                )}
              </td>
              <td className={`${cell} text-right`}>
                {(isOwner || isMe) && (
                  <Remove
                    member={member}
                    isMe={isMe}
                    onConfirm={() => {
                      remove.mutate(member.id);
                    }}
                  />
                )}
              </td>
            </tr>
          );
        }}
      </SortedTable>
    </>
  );
}

function Remove({
  member,
  isMe,
  onConfirm,
}: {
  member: Member;
  isMe: boolean;
  onConfirm: () => void;
}) {
  const action = member.is_invited ? "Withdraw" : isMe ? "Leave" : "Remove";
  return (
    <Confirm
      trigger={
        <Button look="quiet" className="h-7" aria-label={`${action} ${member.email}`}>
          {action}
        </Button>
      }
      title={isMe ? "Leave this project?" : `${action} ${member.email}?`}
      description={
        member.is_invited
          ? "The invitation can no longer be accepted."
          : "Their keys of this project end now, and programs that use them are refused."
      }
      action={action}
      onConfirm={onConfirm}
    />
  );
}
