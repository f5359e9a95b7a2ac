// Make an account; the server makes its first project with it.
import { Link } from "react-router";
import { signUp } from "../../api/auth";
import { CredentialsForm } from "./credentials-form";

export function SignUpPage() {
  return (
    <CredentialsForm
      title="Create an account"
      action="Create account"
      submit={signUp}
      passwordHint="At least 8 characters."
      newPassword
    >
      Have one already?{" "}
      <Link to="/signin" className="font-medium text-accent underline-offset-2 hover:underline">
        Sign in
      </Link>
    </CredentialsForm>
  );
}
