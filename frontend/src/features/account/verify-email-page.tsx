// Where the link in a confirmation mail leads.
import { useMutation } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { Link, useParams } from "react-router";
import { verifyEmail } from "../../api/auth";
import { fieldsOf } from "../../api/errors";
import { Button, ButtonLink } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice, Notice } from "../../ui/notice";
import { AccountFrame, linkClass } from "./account-frame";

/** A button, because mail scanners open links and must not confirm anything. */
export function VerifyEmailPage() {
  const { key = "" } = useParams();
  const [password, setPassword] = useState("");
  const verify = useMutation({ mutationFn: verifyEmail });
  const refused = fieldsOf(verify.error).password;
  const [isAsked, setAsked] = useState(false);
  if (refused && !isAsked) setAsked(true); // and goes on being asked while the next try is under way

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    verify.mutate(isAsked ? { key, password } : { key });
  }

  const below = isAsked && (
    <Link to="/reset-password" className={linkClass}>
      Set a password by mail
    </Link>
  );
  return (
    <AccountFrame title="Confirm your e-mail address" below={below}>
      {verify.isSuccess ? (
        <div className="space-y-4">
          <Notice title="Your address is confirmed." />
          <ButtonLink to="/signin" look="primary" className="w-full">
            Sign in
          </ButtonLink>
        </div>
      ) : (
        <form onSubmit={onSubmit} className="space-y-4" noValidate>
          <ErrorNotice error={refused ? null : verify.error} />
          {isAsked && (
            <TextField
              label="Password of the account"
              type="password"
              autoComplete="current-password"
              autoFocus
              required
              value={password}
              onChange={setPassword}
              error={refused}
            />
          )}
          <Button type="submit" look="primary" className="w-full" disabled={verify.isPending}>
            Confirm
          </Button>
        </form>
      )}
    </AccountFrame>
  );
}
