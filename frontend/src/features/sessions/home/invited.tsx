// That an invitation waits: who signs up because of one lands on a Home where nothing of that project is.
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { accountQuery } from "../../../api/account";
import { Notice } from "../../../ui/notice";
import { UserText } from "../../../ui/user-text";

export function Invited() {
  const { data: account } = useQuery(accountQuery);
  const [invitation] = account?.invitations ?? [];
  if (!invitation) return null;
  return (
    <div className="mb-4">
      <Notice
        title={
          <>
            You are invited to the project <UserText text={invitation.project_name} /> as{" "}
            {invitation.role}.
          </>
        }
      >
        <Link to="/account" className="rounded text-accent underline underline-offset-2">
          Accept or decline on your account page
        </Link>
      </Notice>
    </div>
  );
}
