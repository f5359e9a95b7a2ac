// Where the browser comes back to from the identity provider: signed in, asked for a second factor, or refused.
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { Link, useSearchParams } from "react-router";
import { sessionCheck } from "../../api/auth";
import { ApiError } from "../../api/errors";
import { ErrorNotice } from "../../ui/notice";
import { Loading } from "../../ui/loading";
import { AccountFrame, linkClass } from "./account-frame";
import { SecondStep, useEnterPage } from "./sign-in-page";

const REFUSALS: Record<string, [string, string]> = {
  unconfirmed_address: [
    "The identity provider has not confirmed your e-mail address.",
    "Confirm it there, then sign in again.",
  ],
  signup_closed: [
    "This server has no account for you.",
    "Ask a member to invite you to their project, or its operator.",
  ],
  cancelled: ["The sign-in was cancelled.", ""],
};

export function ProviderReturnPage() {
  const [search] = useSearchParams();
  const code = search.get("error");
  const enterPage = useEnterPage();
  const session = useQuery({
    queryKey: ["provider-return"],
    queryFn: () => sessionCheck().then(() => true),
    enabled: !code,
    retry: false,
    gcTime: 0,
  });
  useEffect(() => {
    if (session.data) void enterPage();
    // Once, when the session is known.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [session.data]);
  if (session.error instanceof ApiError && session.error.code === "second_factor")
    return <SecondStep onDone={enterPage} />;
  if (!code && !session.error) return <Loading />;
  return (
    <AccountFrame
      title="Sign in"
      below={
        <Link to="/signin" className={linkClass}>
          Back to the sign-in
        </Link>
      }
    >
      <ErrorNotice error={code ? refusal(code) : session.error} />
    </AccountFrame>
  );
}

function refusal(code: string): ApiError {
  const [message, hint] = REFUSALS[code] ?? [
    "The identity provider's response was refused.",
    "Begin again.",
  ];
  return new ApiError(401, code, message, hint);
}
