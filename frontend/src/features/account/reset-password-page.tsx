// Ask for a link to set a new password.
import { useMutation } from "@tanstack/react-query";
import { useState, type SyntheticEvent } from "react";
import { Link } from "react-router";
import { requestReset } from "../../api/auth";
import { fieldsOf } from "../../api/errors";
import { Button } from "../../ui/button";
import { TextField } from "../../ui/field";
import { ErrorNotice, Notice } from "../../ui/notice";
import { AccountFrame, linkClass } from "./account-frame";

export function ResetPasswordPage() {
  const [email, setEmail] = useState("");
  const ask = useMutation({ mutationFn: requestReset });

  function onSubmit(event: SyntheticEvent) {
    event.preventDefault();
    ask.mutate(email.trim());
  }

  const below = (
    <Link to="/signin" className={linkClass}>
      Back to sign in
    </Link>
  );
  return (
    <AccountFrame title="Reset your password" below={below}>
      {ask.isSuccess ? (
        <Notice title="Look into your mail.">
          If there is an account with this address, a link is on its way to it.
        </Notice>
      ) : (
        <form onSubmit={onSubmit} className="space-y-4" noValidate>
          <ErrorNotice error={ask.error} />
          <TextField
            label="E-mail"
            type="email"
            autoComplete="username"
            autoFocus
            required
            value={email}
            onChange={setEmail}
            error={fieldsOf(ask.error).email}
          />
          <Button type="submit" look="primary" className="w-full" disabled={ask.isPending}>
            Send a link
          </Button>
        </form>
      )}
    </AccountFrame>
  );
}
