// Where the link in a confirmation mail leads.
import { useMutation } from "@tanstack/react-query";
import { useParams } from "react-router";
import { verifyEmail } from "../../api/auth";
import { Button, ButtonLink } from "../../ui/button";
import { ErrorNotice, Notice } from "../../ui/notice";
import { Wordmark } from "../../ui/wordmark";

/** A button, because mail scanners open links and must not confirm anything. */
export function VerifyEmailPage() {
  const { key = "" } = useParams();
  const verify = useMutation({ mutationFn: () => verifyEmail(key) });
  return (
    <main className="mx-auto flex min-h-screen w-full max-w-sm flex-col justify-center gap-4 px-6">
      <Wordmark />
      <h1 className="text-lg font-semibold">Confirm your e-mail address</h1>
      <ErrorNotice error={verify.error} />
      {verify.isSuccess ? (
        <>
          <Notice title="Your address is confirmed." />
          <ButtonLink to="/signin" look="primary">
            Sign in
          </ButtonLink>
        </>
      ) : (
        <Button
          look="primary"
          disabled={verify.isPending}
          onClick={() => {
            verify.mutate();
          }}
        >
          Confirm
        </Button>
      )}
    </main>
  );
}
