// Sign in with an identity provider of the server's settings; nothing where there is none.
import { useMutation, useQuery } from "@tanstack/react-query";
import { useSearchParams } from "react-router";
import { providerList, signInByProvider } from "../../api/auth";
import { Button } from "../../ui/button";
import { ErrorNotice } from "../../ui/notice";

export function ProviderButton() {
  const [search] = useSearchParams();
  const providers = useQuery({
    queryKey: ["providers"],
    queryFn: providerList,
    staleTime: Infinity,
  });
  const leave = useMutation({
    mutationFn: (id: string) =>
      signInByProvider(
        id,
        `/signin/done?next=${encodeURIComponent(search.get("next") ?? "/home")}`,
      ),
  });
  if (!providers.data?.length) return null;
  return (
    <div className="mt-4 space-y-4 border-t border-line pt-4">
      <ErrorNotice error={leave.error} />
      {providers.data.map((provider) => (
        <Button
          key={provider.id}
          className="w-full"
          disabled={leave.isPending}
          onClick={() => {
            leave.mutate(provider.id);
          }}
        >
          Continue with {provider.name}
        </Button>
      ))}
    </div>
  );
}
