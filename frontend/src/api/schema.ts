// Generated from openapi.json by `npm run gen`. Do not edit.
export interface paths {
    "/v1/account": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who is calling, and their projects; a key knows only its own. */
        get: operations["account_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/account/sign-ins": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The caller's own sign-ins, refused ones, and changes of password and second factor. */
        get: operations["sign_in_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alert-rules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The project's own rules, the oldest first. */
        get: operations["metric_rule_list"];
        put?: never;
        /** Raise an alert of a run while a measure of its steps is beyond a bound. */
        post: operations["metric_rule_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alert-rules/{rule_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a rule. What it had found is over. */
        delete: operations["metric_rule_delete"];
        options?: never;
        head?: never;
        /** Change what is given. What the rule had found is over. */
        patch: operations["metric_rule_update"];
        trace?: never;
    };
    "/v1/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The project's alerts, newest first, and how many of them the caller has not read. */
        get: operations["alert_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/alerts/read": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Every alert up to this one is read by the caller; later ones are not. */
        post: operations["alerts_read"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who did what in the project, newest first. */
        get: operations["audit_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/base-models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The models that a session can start from. */
        get: operations["base_model_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/capacity": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the project has of the server and waits for; a signed-in operator (Django staff) is told of all. */
        get: operations["capacity_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/invitations/{member_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Do away with an invitation. */
        delete: operations["invitation_decline"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/invitations/{member_id}/accept": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Become a member of the project that one is invited to. */
        post: operations["invitation_accept"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The project's API keys. */
        get: operations["key_list"];
        put?: never;
        /** Make an API key; its secret is in this response and nowhere else. */
        post: operations["key_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** End an API key. */
        delete: operations["key_revoke"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who works in the project, and who is invited to. */
        get: operations["member_list"];
        put?: never;
        /** Invite an address to the project; they become a member by accepting. */
        post: operations["member_invite"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/members/{member_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a member, withdraw an invitation, or leave; the last owner cannot. */
        delete: operations["member_remove"];
        options?: never;
        head?: never;
        /** Change a member's role; the last owner stays one. */
        patch: operations["member_update"];
        trace?: never;
    };
    "/v1/outside-calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Ask another OpenAI-compatible endpoint for one chat completion, from this server.
         * @description The audit log has who called which host, written before anything is sent there: of the body the model's name alone, and never the key.
         */
        post: operations["outside_call"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/places": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Where sessions of this server can run, with what of the project's runs and waits at each place.
         * @description A signed-in operator (Django staff) is told of all projects.
         */
        get: operations["place_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The projects that the caller is in; a key knows only its own. */
        get: operations["project_list"];
        put?: never;
        /** Make a project; its maker owns it. */
        post: operations["project_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/projects/{project_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Give the project another name. */
        patch: operations["project_rename"];
        trace?: never;
    };
    "/v1/saved-views": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The project's saved views: pinned ones first, then by name. */
        get: operations["saved_view_list"];
        put?: never;
        /** Keep how the charts of a run are looked at, by a name that no other view of the project has. */
        post: operations["saved_view_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/saved-views/{view_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Remove a view. */
        delete: operations["saved_view_delete"];
        options?: never;
        head?: never;
        /** Change what is given. */
        patch: operations["saved_view_update"];
        trace?: never;
    };
    "/v1/server": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The server's version, the oldest client that it serves, and what not every version can do. */
        get: operations["server_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/serving": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Start an engine for a base model or a ``model`` checkpoint, without a trainer. */
        post: operations["serving_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The project's sessions, newest first if not sorted otherwise. */
        get: operations["session_list"];
        put?: never;
        /** Start a training session. */
        post: operations["session_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/dry-run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** What starting this session would mean; nothing is started. */
        post: operations["session_dry_run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One session. */
        get: operations["session_get"];
        put?: never;
        post?: never;
        /** Remove a session that has ended, with its record, episodes and checkpoints. */
        delete: operations["session_delete"];
        options?: never;
        head?: never;
        /** Name, tags, notes and pin of a session, in every state. */
        patch: operations["session_update"];
        trace?: never;
    };
    "/v1/sessions/{session_id}/accounting": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Where every begun episode went. */
        get: operations["accounting_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/alerts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The alerts of one session, newest first. */
        get: operations["session_alert_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/batches/{batch}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A batch as JSON lines, by its step or, while the session runs, by the name that its refusal gave it. */
        get: operations["batch_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/checkpoints": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The session's checkpoints, newest first. */
        get: operations["checkpoint_list"];
        put?: never;
        /** Ask the session's runtime to write a checkpoint; read it again until it is committed. */
        post: operations["checkpoint_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One checkpoint. */
        get: operations["checkpoint_get"];
        put?: never;
        post?: never;
        /** Remove a checkpoint. */
        delete: operations["checkpoint_delete"];
        options?: never;
        head?: never;
        /** Pin a checkpoint, so that it is kept whatever its age, or let it go. */
        patch: operations["checkpoint_update"];
        trace?: never;
    };
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/download": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Presigned URLs of a committed checkpoint's files. */
        get: operations["checkpoint_download"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/provenance": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a checkpoint was made of: base model, saved states before it, options, and the hashes of its files. */
        get: operations["checkpoint_provenance"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/checkpoints/{checkpoint_id}/publish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let every project of this server read a checkpoint that a tinker client named. */
        post: operations["checkpoint_publish"];
        /** Let its own project alone read it again. */
        delete: operations["checkpoint_unpublish"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Let a running session train its next steps with another learning_rate or kl_coef. */
        patch: operations["session_config_update"];
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The session's episodes, newest first if no sort is given.
         * @description With neither filter nor sort the list of a running session is that of this moment; else, and in every other state, it is what the runtime has reported, which it does within seconds.
         */
        get: operations["episode_list"];
        put?: never;
        /** Begin an episode: a base_url and a key for any OpenAI client. */
        post: operations["episode_begin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/documents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Presigned URLs of what every ended episode's pages are made of, to read the run without a server. */
        get: operations["episode_documents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Presigned URLs of the archive: every episode that has ended, as Parquet; annotations page by page. */
        get: operations["episode_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/facets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Rewards, fates and tasks of the episodes that match, counted; of those that the runtime has reported. */
        get: operations["episode_facets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/nearest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Each task at its plays nearest to two versions, what lost most first: tasks that take turns are compared too. */
        get: operations["episodes_nearest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One episode. */
        get: operations["episode_get"];
        put?: never;
        post?: never;
        /** Erase what is kept of an episode of a session that is ready or has ended: row, tokens, annotations, copies. */
        delete: operations["episode_erase"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/abandon": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Abandon an episode; it is counted and never trained. */
        post: operations["episode_abandon"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/annotation": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Say what the caller thinks of an episode; once its runtime has reported it, which takes seconds. */
        patch: operations["episode_annotate"];
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An episode's LLM calls with their token ids, and how they merged. */
        get: operations["episode_calls"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/end": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End an episode with its reward; acknowledged once it is on disk. */
        post: operations["episode_end"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/heartbeat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep a quiet episode from expiring. */
        post: operations["episode_heartbeat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/neighbours": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What stands before and after an episode in the list of those that match, however long the list is. */
        get: operations["episode_neighbours"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/episodes/{episode_id}/timelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every token of an episode with its text, log-probability, version and advantage. */
        get: operations["episode_timelines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/evaluations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Add what an evaluation measured to the session's record; the console draws it. */
        post: operations["evaluation_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The session's record after a cursor; waits for the next entry if asked to. */
        get: operations["event_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The groups that were trained or wait to be, the newest first. */
        get: operations["group_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/heartbeats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep quiet episodes from expiring, all of a client in one request. */
        post: operations["episodes_heartbeat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/logs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The last lines that the session's runtime wrote, or its last one after the end; or those after a cursor. */
        get: operations["session_logs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The session's steps as columns, put together to as many points as are asked for, with their extremes. */
        get: operations["metric_columns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/rescore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Give episodes that wait to be trained other rewards; the session's record has what was changed, and by whom. */
        post: operations["episodes_rescore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/resources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the session's runtimes used of their machines, sampled every ten seconds, as columns. */
        get: operations["resource_columns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Bring a suspended session back, where ``trainer_ranks`` is given under that number of trainer processes. */
        post: operations["session_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/serving-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** A key for calls of the model that this session serves, and where to send them. */
        post: operations["serving_key_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/shares": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The links that read the session now; their tokens are not kept. */
        get: operations["share_list"];
        put?: never;
        /** Make a link that reads the session without an account. */
        post: operations["share_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/shares/{share_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** End a link, now and for ever. */
        delete: operations["share_revoke"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/steps/{step}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What one optimizer step measured, and the groups that it was made of. */
        get: operations["step_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ask for the end of a session; asking again changes nothing. */
        post: operations["session_stop"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/suspend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Save a ready session's state and free its runtime; a request or resume brings it back. */
        post: operations["session_suspend"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How many attempts wait, run, are done and have failed, and how many workers there are. */
        get: operations["task_counts"];
        put?: never;
        /** Add tasks to the queue, all of them or none; workers take them from there. */
        post: operations["tasks_put"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tasks/lease": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep the leases that a worker holds and take the next attempts. */
        post: operations["tasks_lease"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tasks/{task_id}/episode": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say in which episode an attempt is played, before it is. */
        post: operations["task_episode_set"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tasks/{task_id}/finish": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say that an attempt is done, or why not: then it waits again, or has failed for good. */
        post: operations["task_finish"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tasks/{task_id}/group": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Say in which episodes a judged task is played, and what the judge made of them, before they are ended. */
        post: operations["task_group_set"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tinker": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a session of the tinker client has: its models, with their steps and learning rates. */
        get: operations["tinker_run_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/tinker/{model_id}/calls": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the calls of a model returned, put together to as many points as are asked for, with their extremes. */
        get: operations["model_calls"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/sessions/{session_id}/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What one session used and costs, and where its budget is heading at its pace so far. */
        get: operations["session_usage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The session of the link. */
        get: operations["shared_get"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/episodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The episodes of the link's session that match, without what people said of them. */
        get: operations["shared_episodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/episodes/{episode_id}/timelines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Every token of an episode of the link's session, once it is stored. */
        get: operations["shared_timelines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The steps of the link's session as columns. */
        get: operations["shared_metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What each session of the project used, newest first, all of them together, and what the project has now. */
        get: operations["usage_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/usage/days": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the project used on each day, by model, or by member or key for who may read these. */
        get: operations["usage_days"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The project's webhooks. */
        get: operations["webhook_list"];
        put?: never;
        /** Subscribe an address; the secret that signs is in this response and nowhere else. */
        post: operations["webhook_create"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Unsubscribe an address. */
        delete: operations["webhook_delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/webhooks/{webhook_id}/deliveries": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What was sent, or is on its way, to a webhook. */
        get: operations["delivery_list"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AccountView
         * @description ``GET /v1/account``. Invitations are shown to a person whose address is confirmed, and to no key.
         */
        AccountView: {
            email: string;
            /** @default [] */
            invitations: components["schemas"]["InvitationView"][];
            projects: components["schemas"]["ProjectView"][];
        };
        /**
         * Accounting
         * @description Where every begun episode went. ``begun`` equals the sum of all the others; ``abandoned`` is split by reason.
         */
        Accounting: {
            /** @default 0 */
            abandoned: number;
            /** @default {} */
            abandoned_by_reason: {
                [key: string]: number;
            };
            /** @default 0 */
            begun: number;
            /** @default 0 */
            eval: number;
            /** @default 0 */
            expired: number;
            /** @default 0 */
            open: number;
            /** @default 0 */
            stale: number;
            /** @default 0 */
            trained: number;
            /** @default 0 */
            waiting: number;
        };
        /**
         * AlertList
         * @description One page, newest first. ``unread`` counts all of the project's that this person has not read, 100 at most.
         */
        AlertList: {
            items: components["schemas"]["AlertView"][];
            next_cursor: string | null;
            unread: number;
        };
        /**
         * AlertRule
         * @description What raises an alert. The bounds are in console/sessions/alerts/rules.py.
         * @enum {string}
         */
        AlertRule: "reward_collapse" | "entropy_collapse" | "length_blowup" | "kl" | "engine_gap" | "truncated" | "equal_rewards" | "episodes_dropped" | "stuck" | "restarted" | "failed" | "checkpoint_failed" | "disk" | "budget" | "metric_rule";
        /**
         * AlertView
         * @description One alert. It is raised once until it is over; then it may be raised again.
         */
        AlertView: {
            /** Format: date-time */
            at: string;
            /**
             * @description What to do.
             * @default
             */
            hint: string;
            id: number;
            /** @description By this person; false for a key. */
            is_read: boolean;
            /** @description When what it says was no longer so. */
            over_at: string | null;
            rule: components["schemas"]["AlertRule"];
            session_id: string;
            session_name: string;
            step: number | null;
            /** @description What was measured, and against what. */
            text: string;
        };
        /**
         * AlertsRead
         * @description ``POST /v1/alerts/read``: this person has seen every alert up to this one.
         */
        AlertsRead: {
            upto: number;
        };
        /**
         * Ancestor
         * @description A checkpoint that another one came from.
         */
        Ancestor: {
            /** @description None: it is not of this project, or is not known any more. */
            checkpoint_id: string | null;
            /**
             * @description It is recorded alone: it cannot be downloaded or looked at.
             * @default false
             */
            is_deleted: boolean;
            kind: components["schemas"]["CheckpointKind"] | null;
            session_id: string | null;
            step: number | null;
            /** @description As a Tinker client named it. */
            tinker_path: string | null;
        };
        /**
         * AncestryEnd
         * @description What the oldest known ancestor of a checkpoint came from; without ancestors, the checkpoint itself.
         *
         *     ``upload``: files that a Tinker client uploaded. ``unknown``: a state that is not listed, or not known any more.
         * @enum {string}
         */
        AncestryEnd: "base_model" | "upload" | "unknown";
        /**
         * AnnotationList
         * @description Oldest first.
         */
        AnnotationList: {
            items: components["schemas"]["EpisodeAnnotation"][];
        };
        /**
         * AuditEntry
         * @description Who did what to what. ``content`` is what ``sha256`` covers: SHA-256(previous_sha256 + newline + content).
         */
        AuditEntry: {
            action: string;
            actor: string;
            /** Format: date-time */
            at: string;
            content: string;
            details: {
                [key: string]: unknown;
            };
            key_id: string | null;
            number: number;
            previous_sha256: string;
            request_id: string;
            sha256: string;
            target: {
                [key: string]: string;
            };
        };
        /**
         * AuditPage
         * @description Newest first; ``next_cursor`` is what to pass as ``before`` next time, null at the end of the log.
         *
         *     A search reads 10,000 entries for a page at most: a page that is short or empty may be followed by another.
         */
        AuditPage: {
            items: components["schemas"]["AuditEntry"][];
            next_cursor: number | null;
        };
        /**
         * BaseModelList
         * @description The base models that this server offers.
         */
        BaseModelList: {
            items: components["schemas"]["BaseModelView"][];
        };
        /**
         * BaseModelView
         * @description A model that a session can start from.
         */
        BaseModelView: {
            /** @description Longest context in tokens, where known. */
            context_length: number | null;
            /** @default  */
            license: string;
            name: string;
            /** @description Number of weights, where known. */
            parameters: number | null;
        };
        /**
         * Budget
         * @description What a session may use; none means no limit. At a limit it takes a ``model`` checkpoint and stops.
         */
        Budget: {
            /** @description Seconds of its runtimes times their GPUs; a runtime without one counts as one. */
            device_s?: number | null;
            /** @description Completed steps. (config.max_steps ends training alone.) */
            steps?: number | null;
            /** @description Seconds since it was made, waiting included. */
            wall_s?: number | null;
        };
        /**
         * CallColumn
         * @description One measure, an entry per point: that of the last call of the point, and the extremes of all of its calls.
         */
        CallColumn: {
            high: (number | null)[];
            last: (number | null)[];
            low: (number | null)[];
        };
        /**
         * CallView
         * @description One LLM request of an episode. ``messages`` are those that the call it continues has not.
         */
        CallView: {
            agent: string | null;
            /** @description Unix time in seconds. */
            begun_at: number;
            completions: components["schemas"]["SampledAnswer"][];
            /** @description The call whose prompt and answer this one's prompt starts with. */
            continues: string | null;
            drift: components["schemas"]["DriftPoint"] | null;
            ended_at: number;
            /** @description call_X; its answer's id was the same X behind chatcmpl-, cmpl-, resp_ or msg_. */
            id: string;
            messages: {
                [key: string]: unknown;
            }[];
            /** @description How many of the request's messages are left out of `messages`. */
            messages_from: number;
            /** @description The request without its messages. */
            options: {
                [key: string]: unknown;
            };
            prompt_token_ids: number[];
            /** @enum {string} */
            status: "completed" | "cancelled";
        };
        /**
         * CapacityView
         * @description ``GET /v1/capacity``: what the project has and waits for; to the server's operator, what every project has.
         */
        CapacityView: {
            /** @description The server starts no session, because its operator said so. */
            is_draining: boolean;
            /** @description So many sessions may run at once, of all projects, at all places. */
            max_runtimes: number;
            quotas: components["schemas"]["Quotas"];
            /** @description Of the project, the newest first. */
            running: components["schemas"]["RunningSession"][];
            /** @description For operators only. */
            server: components["schemas"]["ServerCapacity"] | null;
            /** @description Of the project, the next one first. */
            waiting: components["schemas"]["WaitingSession"][];
        };
        /**
         * CheckpointCreate
         * @description ``POST /v1/sessions/{id}/checkpoints``: ask the runtime for one.
         */
        CheckpointCreate: {
            /**
             * @default model
             * @enum {string}
             */
            kind?: "state" | "model";
        };
        /**
         * CheckpointDownload
         * @description ``GET .../download``: ask again when ``expires_at`` has passed.
         */
        CheckpointDownload: {
            checkpoint_id: string;
            /** Format: date-time */
            expires_at: string;
            files: components["schemas"]["DownloadFile"][];
            step: number;
        };
        /**
         * CheckpointKind
         * @description ``state`` resumes (weights and optimizer); ``model`` is a Hugging Face folder.
         * @enum {string}
         */
        CheckpointKind: "state" | "model";
        /**
         * CheckpointList
         * @description Newest first.
         */
        CheckpointList: {
            items: components["schemas"]["CheckpointView"][];
        };
        /**
         * CheckpointProvenance
         * @description ``GET .../provenance``: what a checkpoint was made of.
         */
        CheckpointProvenance: {
            /** @description Saved states that it came from, the latest first, then the checkpoint that its session began from, and what that came from; 20 at most. Of a Tinker model: the state that it was created from, and so on. */
            ancestors: components["schemas"]["Ancestor"][];
            /** @description What the last of these came from. */
            ancestry_end: components["schemas"]["AncestryEnd"];
            /** @description Of its session. Its weights began there if ancestry_end says so. */
            base_model: string;
            checkpoint_id: string;
            committed_at: string | null;
            /** @description The session's options; resuming with another trainer_ranks changes that one. */
            config: components["schemas"]["SessionConfig"];
            /** @description Of these options as JSON, sorted by name, without spaces. */
            config_sha256: string;
            /** Format: date-time */
            created_at: string;
            /** @description As committed: what is downloaded has these hashes. */
            files: components["schemas"]["ManifestFile"][];
            /** @description The server has compared the stored files with the hashes. */
            hashes_checked: boolean;
            kind: components["schemas"]["CheckpointKind"];
            /** @description False of a Tinker model: what its client loaded later is not recorded. */
            loads_recorded: boolean;
            session_id: string;
            session_name: string;
            step: number | null;
        };
        /**
         * CheckpointState
         * @description A checkpoint is readable only when committed: its manifest is written last.
         * @enum {string}
         */
        CheckpointState: "requested" | "uploading" | "committed" | "failed";
        /**
         * CheckpointUpdate
         * @description ``PATCH /v1/sessions/{id}/checkpoints/{checkpoint_id}``.
         */
        CheckpointUpdate: {
            /** @description A pinned checkpoint is kept until it is deleted, whatever its age. */
            pinned: boolean;
        };
        /**
         * CheckpointView
         * @description A checkpoint as a row: what it is and whether it can be read yet.
         */
        CheckpointView: {
            committed_at: string | null;
            /** Format: date-time */
            created_at: string;
            /** @default  */
            failure: string;
            id: string;
            kind: components["schemas"]["CheckpointKind"];
            /** @default false */
            pinned: boolean;
            /**
             * @description Of such a one: whether every project of this server may read it.
             * @default false
             */
            public: boolean;
            session_id: string;
            size_bytes: number | null;
            state: components["schemas"]["CheckpointState"];
            step: number | null;
            /** @description Of one that a tinker client named: tinker://MODEL/weights/NAME. */
            tinker_path: string | null;
        };
        /**
         * ComparedTask
         * @description One task at its two plays. Each play belongs to the version that it is nearer to.
         */
        ComparedTask: {
            after: components["schemas"]["NearPlay"];
            before: components["schemas"]["NearPlay"];
            task: string;
        };
        /**
         * ConfigChange
         * @description Options that were changed in a session: they hold for ``first_step`` and all steps after it.
         */
        ConfigChange: {
            /** @description Unix time in seconds. */
            at: number;
            first_step: number;
            /** @description The new value of each that was changed. */
            options: {
                [key: string]: number;
            };
            /** @description Its number in the session; 0: the values held already. */
            seq: number;
            /** @description What each was before; None: the default for a model of its size. */
            was: {
                [key: string]: number | null;
            };
        };
        /**
         * ConfigUpdate
         * @description ``PATCH /v1/sessions/{id}/config``: options of the next step and of all after it.
         */
        ConfigUpdate: {
            /** @description Weight of the KL term, in a session that began with one above 0 or trains LoRA adapters. */
            kl_coef?: number | null;
            /** @description AdamW's peak; warm-up and lr_schedule go on by the number of the step. */
            learning_rate?: number | null;
        };
        /**
         * DayUsage
         * @description What one payer used on one day, from midnight to midnight UTC.
         */
        DayUsage: {
            /** @description At the prices of today; none: the server has none. */
            cost: number | null;
            /** Format: date */
            date: string;
            /** @description The same as gpu_s, with a runtime without GPU as one device. */
            device_s: number;
            gpu_s: number;
            /** @description Of the member or key, or the name of the model; none: not known, or by hand. */
            id: string | null;
            runtime_s: number;
        };
        /**
         * DeliveryList
         * @description The latest, newest first; kept for thirty days.
         */
        DeliveryList: {
            items: components["schemas"]["DeliveryView"][];
        };
        /**
         * DeliveryState
         * @description ``failed``: given up after the last try.
         * @enum {string}
         */
        DeliveryState: "pending" | "delivered" | "failed";
        /**
         * DeliveryView
         * @description One event on its way to one webhook. ``status`` and ``error`` are those of the last try.
         */
        DeliveryView: {
            attempts: number;
            /** Format: date-time */
            created_at: string;
            delivered_at: string | null;
            /** @default  */
            error: string;
            id: string;
            next_at: string | null;
            state: components["schemas"]["DeliveryState"];
            status: number | null;
            topic: components["schemas"]["WebhookTopic"];
        };
        /**
         * DevicePrices
         * @description Of a device-hour, as who runs the server set them (TINKERSCRIPT_PRICES).
         */
        DevicePrices: {
            /** @description Of a runtime without a GPU. */
            cpu: number;
            /** @description Three letters, ISO 4217. */
            currency: string;
            gpu: number;
        };
        /**
         * DeviceUse
         * @description A device of the server's machine.
         */
        DeviceUse: {
            /** @description As CUDA_VISIBLE_DEVICES names it. */
            device: string;
            session_id: string | null;
            session_name: string | null;
            /** @enum {string} */
            used_by: "nobody" | "session";
        };
        /**
         * DownloadFile
         * @description A file with the presigned URL that serves it (range requests allowed).
         */
        DownloadFile: {
            path: string;
            sha256: string;
            size_bytes: number;
            url: string;
        };
        /**
         * DriftPoint
         * @description Where a call continues an earlier one in its messages but not in its tokens, so that a new timeline began.
         */
        DriftPoint: {
            call: string;
            /**
             * @description What changed it: the client sent the message in another way than it was, the chat template writes it differently in history, or the gateway could not reuse the tokens.
             * @default template
             * @enum {string}
             */
            cause: "client" | "template" | "gateway";
            /** @description The earlier call. */
            continues: string;
            /** @description Index in the request of the message at which they part. */
            message: number;
            reason: string;
            /** @description What this call's prompt holds there, a fragment. */
            renders: string;
            /** @description What the engine had seen there, a fragment. */
            saw: string;
            /**
             * @description Index of the first token that differs.
             * @default 0
             */
            token: number;
        };
        /**
         * EngineCorrection
         * @description Weights, masks and a veto by the ratio w = pi_trainer / pi_engine of sampled tokens.
         *
         *     ``token``: of each token. ``sequence``: the product over the trained tokens of its timeline. ``geometric``: their geometric mean. Gaps up to 1e-4 nats count as none. Formulas: gpu_runtime/training/objective/engine_correction.py.
         */
        EngineCorrection: {
            /**
             * @description The ratio by which tokens are left out of the loss: their own, or that of their sequence.
             * @default token
             * @enum {string}
             */
            mask?: "none" | "token" | "sequence" | "geometric";
            /**
             * @description A larger ratio is left out. None: no bound.
             * @default 8
             */
            mask_high?: number | null;
            /**
             * @description A smaller ratio is left out. None: no bound.
             * @default 0.125
             */
            mask_low?: number | null;
            /** @description A sequence with a token whose ratio is below this, or above 1 / this, is left out whole; 1e-4 is usual. None: none is. */
            veto?: number | null;
            /**
             * @description The ratio trainer / engine that a token's loss is multiplied by: its own, the product over its sequence, or their geometric mean.
             * @default token
             * @enum {string}
             */
            weight?: "none" | "token" | "sequence" | "geometric";
            /**
             * @description A larger weight is cut to this.
             * @default 2
             */
            weight_high?: number;
            /** @description A smaller weight is raised to this. None: no floor. */
            weight_low?: number | null;
        };
        /**
         * EpisodeAbandon
         * @description ``POST .../abandon``: the episode counts as abandoned for ``reason`` and is never trained.
         */
        EpisodeAbandon: {
            /** @default abandoned */
            reason?: string;
        };
        /**
         * EpisodeAnnotate
         * @description ``PATCH .../episodes/{episode_id}/annotation``: the caller's own words on it, in the place of earlier ones.
         *
         *     With neither thumb nor comment they are taken back.
         */
        EpisodeAnnotate: {
            /** @default  */
            comment?: string;
            thumb?: components["schemas"]["Thumb"] | null;
        };
        /**
         * EpisodeAnnotation
         * @description What one person says of an episode.
         */
        EpisodeAnnotation: {
            /** Format: date-time */
            at: string;
            /** @description An e-mail address; empty once the person is erased. */
            by: string;
            comment: string;
            episode_id: string;
            thumb: components["schemas"]["Thumb"] | null;
        };
        /**
         * EpisodeBegin
         * @description ``POST /v1/sessions/{id}/episodes``. Without ``task`` the group is found by the first call's prompt.
         */
        EpisodeBegin: {
            /**
             * @description Served and counted, never trained.
             * @default false
             */
            eval?: boolean;
            /** @description An open episode of this caller to abandon first. */
            supersedes?: string | null;
            task?: string | null;
            /** @description Total deadline; the session's own if absent. */
            timeout_s?: number | null;
        };
        /**
         * EpisodeBegun
         * @description The key is good for this episode alone; requests with it return 410 once the episode is over.
         */
        EpisodeBegun: {
            api_key: string;
            /** @description Constant for a server; give it to any OpenAI client. */
            base_url: string;
            /** @description Seconds from now until the episode expires, whatever it does. */
            deadline_s: number;
            episode_id: string;
            idle_timeout_s: number;
            /** @description Tokens of a prompt and its answer; null: not known. */
            max_context_length: number | null;
            model: string;
            policy_version: number;
        };
        /**
         * EpisodeCalls
         * @description ``GET /v1/sessions/{id}/episodes/{episode_id}/calls``: one page in the order of recording; the whole's report.
         */
        EpisodeCalls: {
            items: components["schemas"]["CallView"][];
            next_cursor: string | null;
            report: components["schemas"]["EpisodeReport"];
        };
        /**
         * EpisodeDocument
         * @description The gzipped JSON of one episode: a stretch of a file that holds several of them.
         *
         *     It has ``report``, ``calls`` and ``timelines`` of EpisodeTimelines, and ``output`` as the episode was ended with.
         */
        EpisodeDocument: {
            /** @description By call, where they differ; else the episode's own is that of each call. */
            advantages: {
                [key: string]: number;
            } | null;
            episode_id: string;
            /** @description The path of one of the page's files. */
            file: string;
            offset_bytes: number;
            size_bytes: number;
        };
        /**
         * EpisodeDocuments
         * @description ``GET .../episodes/documents``: one page in the order of beginning, with URLs of the files that it names.
         *
         *     An episode is in the list once its document is in the object store: within seconds of its end.
         */
        EpisodeDocuments: {
            /** Format: date-time */
            expires_at: string;
            files: components["schemas"]["DownloadFile"][];
            items: components["schemas"]["EpisodeDocument"][];
            next_cursor: string | null;
        };
        /**
         * EpisodeEnd
         * @description ``POST /v1/sessions/{id}/episodes/{episode_id}/end``: idempotent, acknowledged once it is on disk.
         */
        EpisodeEnd: {
            output: components["schemas"]["WorkflowOutput"];
        };
        /**
         * EpisodeExport
         * @description ``GET .../episodes/export``: what has been archived; ask again when ``expires_at`` has passed.
         *
         *     An episode is archived once nothing about it can change: with the next checkpoint, when the session is suspended or stopped, and when it fails in a way that leaves its runtime the time.
         */
        EpisodeExport: {
            /**
             * @description Of any of its episodes, as they are now: one page, oldest first.
             * @default []
             */
            annotations: components["schemas"]["EpisodeAnnotation"][];
            /** @description Of the next page (annotations_after); null: no more. */
            annotations_cursor: number | null;
            /** @description In all files. */
            episodes: number;
            /** Format: date-time */
            expires_at: string;
            files: components["schemas"]["EpisodeFile"][];
            session_id: string;
        };
        /**
         * EpisodeFacets
         * @description ``GET .../episodes/facets``: of the episodes that match. Fates and tasks leave out the filter by themselves.
         *
         *     So a page can say how many another choice would show.
         */
        EpisodeFacets: {
            episodes: number;
            /** @description How many of them are for evaluation. */
            evaluation: number;
            fates: {
                [key: string]: number;
            };
            /** @description To nine digits. */
            reward_mean: number | null;
            /** @description Of those with a reward, lowest first; empty buckets are left out. */
            rewards: components["schemas"]["RewardBucket"][];
            /** @description The 12 with the most episodes. */
            tasks: components["schemas"]["TaskCount"][];
            tasks_in_all: number;
        };
        /**
         * EpisodeFate
         * @description Where an episode is in the accounting, in one word.
         * @enum {string}
         */
        EpisodeFate: "open" | "waiting" | "trained" | "eval" | "stale" | "abandoned" | "expired";
        /**
         * EpisodeFile
         * @description One Parquet file of the archive, a row for each episode; what its columns are is written in the file.
         */
        EpisodeFile: {
            episodes: number;
            /** @description Its number, from 1 without a gap. An episode is in one part alone. */
            part: number;
            path: string;
            sha256: string;
            size_bytes: number;
            url: string;
        };
        /**
         * EpisodeList
         * @description One page, newest first.
         */
        EpisodeList: {
            items: components["schemas"]["EpisodeView"][];
            next_cursor: string | null;
        };
        /**
         * EpisodeNeighbours
         * @description The ids of the episodes before and after one in a list of the console. None: there is none.
         */
        EpisodeNeighbours: {
            next: string | null;
            previous: string | null;
        };
        /**
         * EpisodeOutline
         * @description An episode in stretches of ``width`` tokens, numbered through all timelines; the last may be shorter.
         *
         *     The lists have the same length. Of a stretch without a sampled token, the last six are null.
         */
        EpisodeOutline: {
            /** @description The one of the largest size. */
            advantages: (number | null)[];
            /**
             * @description The trainer's log-probability after the step - before it, the one of the largest size; null where none is kept.
             * @default []
             */
            changes: (number | null)[];
            /** @description Of that token. */
            logprobs: (number | null)[];
            /**
             * @description The furthest from 1 of exp(the trainer's log-probability before the step - the sampled one); null where none is kept.
             * @default []
             */
            ratios: (number | null)[];
            /** @description The sampled token with the lowest log-probability: its number. */
            surprising: (number | null)[];
            /** @description The tokens of each timeline: the first token of the next has their sum. */
            timelines: number[];
            /** @description The newest policy version. */
            versions: (number | null)[];
            width: number;
        };
        /**
         * EpisodeReport
         * @description What became of an episode's calls as training sees them. A call with ``n`` answers has ``n`` completions.
         */
        EpisodeReport: {
            /** @description The labels that calls were made under. */
            agents: string[];
            calls: number;
            /** @description Generation did not finish; never trained. */
            cancelled_calls: number;
            completions: number;
            drift: components["schemas"]["DriftPoint"][];
            /** @description Completions that needed no timeline of their own, from 0 to 1. */
            merged_share: number;
            /** @description Token sequences that the completions merge into. */
            timelines: number;
        };
        /**
         * EpisodeSort
         * @description The order of a list of episodes. Those without the value that is sorted by are left out.
         * @enum {string}
         */
        EpisodeSort: "newest" | "oldest" | "best" | "worst" | "longest" | "surprising";
        /**
         * EpisodeState
         * @description ``open`` until the agent or a clock ends it; ``completed`` ones wait, then are trained, eval or stale.
         * @enum {string}
         */
        EpisodeState: "open" | "completed" | "abandoned" | "expired";
        /**
         * EpisodeTimelines
         * @description ``GET /v1/sessions/{id}/episodes/{episode_id}/timelines``: every token with its text, some thousands a page.
         *
         *     ``calls``, ``report`` and ``outline`` are those of the whole episode, on the first page.
         */
        EpisodeTimelines: {
            /** @default [] */
            calls: components["schemas"]["TrajectoryCall"][];
            episode: components["schemas"]["EpisodeView"];
            next_cursor: string | null;
            outline: components["schemas"]["EpisodeOutline"] | null;
            report: components["schemas"]["EpisodeReport"] | null;
            timelines: components["schemas"]["TokenTimeline"][];
        };
        /**
         * EpisodeView
         * @description One episode as the session's journal has it.
         */
        EpisodeView: {
            /** @description The mean over its calls, once it is trained. */
            advantage: number | null;
            /**
             * @description Labels of its calls; like the next seven, once it has ended.
             * @default []
             */
            agents: string[];
            /**
             * @description Only in lists with a filter or a sort, the newest twenty, and in timelines.
             * @default []
             */
            annotations: components["schemas"]["EpisodeAnnotation"][];
            /**
             * @description The beginning of its last answer.
             * @default
             */
            answer: string;
            /** @description Unix time in seconds, as the next three. */
            begun_at: number;
            /** @default 0 */
            calls: number;
            /** @description When it expires whatever it does. */
            deadline_at: number | null;
            /**
             * @description Calls that had to begin a new timeline.
             * @default 0
             */
            drift: number;
            ended_at: number | null;
            episode_id: string;
            /** @default false */
            eval: boolean;
            fate: components["schemas"]["SampleFate"] | null;
            group_key: string | null;
            /**
             * @description Whether its calls and tokens are in the object store.
             * @default false
             */
            has_tokens: boolean;
            /** @description When it expires unless a call or heartbeat comes before; null while a call runs, and in lists. */
            idle_at: number | null;
            is_success: boolean | null;
            /** @description Of its sampled tokens. */
            logprob_mean: number | null;
            /** @description As it was ended with; not in lists. */
            metadata: {
                [key: string]: unknown;
            } | null;
            /** @default {} */
            metrics: {
                [key: string]: number;
            };
            policy_version_first: number | null;
            policy_version_last: number | null;
            /**
             * @description The end of what it was asked: of the first prompt's last message.
             * @default
             */
            prompt: string;
            /** @description Trained tokens by exp(the trainer's log-probability before the step - the sampled one), between 0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 0.9999, 1.0001, 1.001, 1.01, 1.05, 1.1, 1.25 and 2; null: none kept. */
            ratio_counts: number[] | null;
            /** @description Why it was abandoned, expired, or not trained. */
            reason: string | null;
            /** @description What was refused of its calls; null: nothing. */
            refused: components["schemas"]["RefusedCalls"] | null;
            reward: number | null;
            rewards_by_agent: {
                [key: string]: number;
            } | null;
            /** @description By the names it was ended with; not in lists. */
            rewards_by_call: {
                [key: string]: number;
            } | null;
            /** @default 0 */
            sampled_tokens: number;
            state: components["schemas"]["EpisodeState"];
            task: string | null;
            /** @description Token sequences its calls merged into, once completed. */
            timelines: number | null;
            trained_step: number | null;
            /** @description What looks wrong with how its calls are made; while it is open and when it is ended. There also what went wrong in the session's training and was not said before. */
            warning: string | null;
        };
        /**
         * EpisodesHeartbeat
         * @description ``POST /v1/sessions/{id}/heartbeats``: agents work on these episodes, whether or not they call the model.
         */
        EpisodesHeartbeat: {
            episode_ids: string[];
        };
        /**
         * EpisodesHeartbeatResult
         * @description What the client should know of the episodes that it named.
         */
        EpisodesHeartbeatResult: {
            /** @description Those that are not open: ended, abandoned, expired or unknown. */
            over: string[];
            /** @description What looks wrong with how an episode's calls are made, by its id. */
            warnings: {
                [key: string]: string;
            };
        };
        /**
         * EpisodesRescore
         * @description ``POST /v1/sessions/{id}/rescore``: other rewards for episodes that wait to be trained.
         */
        EpisodesRescore: {
            /** @description By episode. */
            rewards: {
                [key: string]: number;
            };
        };
        /**
         * EpisodesRescored
         * @description Every episode that was named is in one of the three. What is refused keeps its reward.
         */
        EpisodesRescored: {
            /** @description On disk. Of a request that is sent again: what it changed then. */
            changes: components["schemas"]["RewardChange"][];
            /** @description Why, by episode. */
            refused: {
                [key: string]: string;
            };
            /** @description They had this reward already. */
            unchanged: string[];
        };
        /**
         * ErrorBody
         * @description The body of every response with a status of 400 and up.
         */
        ErrorBody: {
            error: components["schemas"]["ErrorDetail"];
            /** @default  */
            request_id: string;
        };
        /**
         * ErrorCode
         * @description What went wrong, for programs. A code keeps its meaning for ever; the message beside it may change.
         * @enum {string}
         */
        ErrorCode: "invalid_request" | "model_unsupported" | "unknown_base_model" | "does_not_fit" | "invalid_reward" | "unauthenticated" | "budget_exhausted" | "forbidden" | "not_found" | "method_not_allowed" | "conflict" | "idempotency_mismatch" | "stale_lease" | "episode_closed" | "empty_episode" | "quota_exceeded" | "rate_limited" | "session_failed" | "session_not_ready" | "storage_unavailable" | "disk_full" | "internal";
        /**
         * ErrorDetail
         * @description ``hint`` is what to do next, in words for people.
         */
        ErrorDetail: {
            code: components["schemas"]["ErrorCode"];
            /** @default {} */
            details: {
                [key: string]: unknown;
            };
            /** @default  */
            hint: string;
            message: string;
        };
        /**
         * Evaluation
         * @description ``POST /v1/sessions/{id}/evaluations``: what eval episodes of one policy version earned, for the record.
         */
        Evaluation: {
            /**
             * @description Of a larger set the first tasks by name.
             * @default {}
             */
            by_task?: {
                [key: string]: components["schemas"]["TaskScore"];
            };
            /** @description That ended with a reward. */
            episodes: number;
            /**
             * @description That were abandoned, and are in no mean.
             * @default 0
             */
            failed?: number;
            /**
             * @description Means of what the agent measured itself: reward/<part> among them.
             * @default {}
             */
            metrics?: {
                [key: string]: number;
            };
            /**
             * @description Of the set of tasks.
             * @default eval
             */
            name?: string;
            reward_mean: number;
            /** @description Of the episodes; none of a single one. */
            reward_std?: number | null;
            /** @description The policy version that played. */
            step: number;
            /** @description Among the episodes that say. */
            success_rate?: number | null;
        };
        /**
         * Event
         * @description One entry. ``cursor`` grows within a session; ask for those after the last one seen.
         */
        Event: {
            /** Format: date-time */
            at: string;
            cursor: number;
            data: {
                [key: string]: unknown;
            };
            kind: components["schemas"]["EventKind"];
        };
        /**
         * EventKind
         * @description What an entry of the record is about; ``data`` has a fixed shape per kind.
         * @enum {string}
         */
        EventKind: "state" | "metric" | "event" | "log" | "evaluation";
        /**
         * EventPage
         * @description Entries in order; ``next_cursor`` is what to pass as ``after`` next time.
         */
        EventPage: {
            items: components["schemas"]["Event"][];
            /**
             * @description With spread: how many marks after the cursor are not among the items.
             * @default 0
             */
            left_out: number;
            next_cursor: number;
        };
        /**
         * Failure
         * @description Why a session failed: a stable code, what happened, what to do, and the last lines of its runtime.
         */
        Failure: {
            cause: string;
            code: string;
            /** @default  */
            hint: string;
            /**
             * @description What its runtime wrote last, oldest first; none: it failed without one.
             * @default []
             */
            log: string[];
        };
        /**
         * GpuSample
         * @description One GPU that the runtime sees, as its driver reports it (NVML). None: this device does not report it.
         */
        GpuSample: {
            /** @description Share of the time in which a kernel ran. */
            busy?: number | null;
            /** @description Used, by whichever process. */
            memory_bytes?: number | null;
            memory_total_bytes?: number | null;
            name: string;
            power_w?: number | null;
        };
        /**
         * GroupList
         * @description ``GET .../groups``: one page, the newest first.
         */
        GroupList: {
            items: components["schemas"]["GroupView"][];
            next_cursor: string | null;
        };
        /**
         * GroupView
         * @description The episodes that share a baseline: of one task in one step, or waiting for their step.
         */
        GroupView: {
            count: number;
            episodes: components["schemas"]["EpisodeView"][];
            group_key: string;
            /** @description Whether rewards differ: a group whose rewards are equal teaches nothing. */
            has_signal: boolean;
            reward_mean: number | null;
            /** @description With divisor n. */
            reward_std: number | null;
            /** @description That trained it; null while it waits. */
            step: number | null;
            task: string | null;
        };
        /**
         * Held
         * @description How much of something the project has now, and how much it may have at once; none: as much as there is.
         */
        Held: {
            limit: number | null;
            used: number;
        };
        /**
         * InvitationView
         * @description A project that the caller is invited to.
         */
        InvitationView: {
            /** Format: date-time */
            created_at: string;
            id: string;
            project_name: string;
            role: components["schemas"]["Role"];
        };
        /**
         * KeyCreate
         * @description ``POST /v1/keys``.
         */
        KeyCreate: {
            /** @description The base models that it may be used with; none means all. */
            allowed_models?: string[] | null;
            expires_in_days?: number | null;
            /** @default  */
            name?: string;
            /**
             * @default [
             *       "sessions:read",
             *       "sessions:write",
             *       "episodes",
             *       "checkpoints:read"
             *     ]
             */
            scopes?: components["schemas"]["Scope"][];
            /** @description Device-seconds that the sessions it starts may use in all; then they are stopped in good order. */
            spend_cap_s?: number | null;
        };
        /**
         * KeyCreated
         * @description The only response that carries the secret.
         */
        KeyCreated: {
            allowed_models: string[] | null;
            /** Format: date-time */
            created_at: string;
            created_by: string;
            expires_at: string | null;
            id: string;
            last_used_at: string | null;
            name: string;
            /** @description The first characters, to distinguish keys. */
            prefix: string;
            revoked_at: string | null;
            scopes: components["schemas"]["Scope"][];
            secret: string;
            spend_cap_s: number | null;
            /** @default 0 */
            spent_s: number;
        };
        /**
         * KeyList
         * @description Newest first, revoked ones included.
         */
        KeyList: {
            items: components["schemas"]["KeyView"][];
        };
        /**
         * KeyView
         * @description A key without its secret, which is stored only as a hash.
         *
         *     ``spent_s`` is measured: the seconds in which a runtime was seen to serve a session of this key, times its GPUs (a runtime without a GPU counts as one device).
         */
        KeyView: {
            allowed_models: string[] | null;
            /** Format: date-time */
            created_at: string;
            created_by: string;
            expires_at: string | null;
            id: string;
            last_used_at: string | null;
            name: string;
            /** @description The first characters, to distinguish keys. */
            prefix: string;
            revoked_at: string | null;
            scopes: components["schemas"]["Scope"][];
            spend_cap_s: number | null;
            /** @default 0 */
            spent_s: number;
        };
        /**
         * LeasedTask
         * @description An attempt to play. ``episode_id`` is that of the worker that had it before: end or abandon that one first.
         *
         *     Of a judged task it is all ``attempts`` at once. ``episode_ids`` are then those of the worker before; with ``outputs``, one for each, they had been judged: end them with these.
         */
        LeasedTask: {
            /** @default 1 */
            attempts: number;
            episode_id: string | null;
            /** @default [] */
            episode_ids: string[];
            eval: boolean;
            /** @default false */
            judged: boolean;
            lease: string;
            name: string;
            outputs: components["schemas"]["WorkflowOutput"][] | null;
            row: unknown;
            task_id: string;
            tries: number;
            /** @description From 1. */
            try_number: number;
        };
        /**
         * LimitForecast
         * @description A limit of a session's budget, and where it is heading at the pace that it had so far.
         */
        LimitForecast: {
            allowed: number;
            /** @description What the session will have cost then; none without prices, or where left_s is none. */
            cost_at_limit: number | null;
            /** @description Seconds with a runtime (of wall_s: by the clock) until it is reached; none: it is not being used, or, of spend_cap_s, other sessions of the key use it too. */
            left_s: number | null;
            /** @description steps, wall_s, device_s, spend_cap_s (of the key that started it) or hours. */
            limit: string;
            used: number;
        };
        /**
         * LoraOptions
         * @description ``lora_config`` of ``create_model``. Without a seed the model's number in its session is the seed.
         */
        LoraOptions: {
            rank: number;
            seed?: number | null;
            /** @default true */
            train_attn?: boolean;
            /** @default true */
            train_mlp?: boolean;
            /** @default true */
            train_unembed?: boolean;
        };
        /**
         * ManifestFile
         * @description One file of a checkpoint. ``path`` is relative, with forward slashes.
         */
        ManifestFile: {
            path: string;
            sha256: string;
            size_bytes: number;
        };
        /**
         * MemberInvite
         * @description ``POST /v1/members``.
         */
        MemberInvite: {
            email: string;
            /** @default member */
            role?: components["schemas"]["Role"];
        };
        /**
         * MemberList
         * @description Oldest first.
         */
        MemberList: {
            items: components["schemas"]["MemberView"][];
        };
        /**
         * MemberUpdate
         * @description ``PATCH /v1/members/{id}``.
         */
        MemberUpdate: {
            role: components["schemas"]["Role"];
        };
        /**
         * MemberView
         * @description A member, or someone who is invited and has not accepted.
         */
        MemberView: {
            /** Format: date-time */
            created_at: string;
            email: string;
            id: string;
            /** @description They have not accepted yet, and can do nothing. */
            is_invited: boolean;
            role: components["schemas"]["Role"];
        };
        /**
         * MemoryEstimate
         * @description Predicted memory of all processes of a session, host and devices together (catalogue/memory_estimate.py).
         */
        MemoryEstimate: {
            /** @description Of one micro-batch on every rank; 0 where the model's shape is not known. */
            activation_bytes: number;
            /** @description Of all engines. */
            engine_bytes: number;
            /**
             * @description At most: one on each GPU that is an engine's. A model that needs several GPUs has fewer. On CPUs one on each machine.
             * @default 1
             */
            engines: number;
            handover_bytes: number;
            /**
             * @description Logits and their gradient on every rank, at most.
             * @default 0
             */
            head_bytes: number;
            optimizer_bytes: number;
            /**
             * @description Of what each machine or GPU holds.
             * @default []
             */
            places: components["schemas"]["MemoryPlace"][];
            /** @description Libraries and buffers, measured. */
            process_bytes: number;
            reference_bytes: number;
            total_bytes: number;
            /** @description Weights and gradients. */
            trainer_bytes: number;
        };
        /**
         * MemoryPlace
         * @description Predicted memory of a machine or a GPU, by part. ``total_bytes`` is the sum of the parts.
         */
        MemoryPlace: {
            /** @description Of one micro-batch, at most; 0 where the model's shape is not known. */
            activation_bytes: number;
            /** @description What it may use there; None where it is not known. */
            available_bytes: number | null;
            /** @description Keys and values: on a GPU those of one context, an engine takes what is left. */
            cache_bytes: number;
            engine_weights_bytes: number;
            /** @description Engines that begin on it; one over several begins on the first. */
            engines: number;
            gradient_bytes: number;
            handover_bytes: number;
            /** @description Logits and their gradient, at most. */
            head_bytes: number;
            /** @description machine, machine 1 of 2, GPU 1 of 4, host. */
            name: string;
            optimizer_bytes: number;
            /** @description Libraries and buffers, measured. */
            process_bytes: number;
            /** @description Ranks of the trainer on it. */
            ranks: number;
            reference_bytes: number;
            total_bytes: number;
            /** @description The trainer's weights; under ZeRO 3 a part, and what is put together of it at one time. */
            weights_bytes: number;
        };
        /**
         * MetricAxis
         * @description What the steps are drawn over.
         * @enum {string}
         */
        MetricAxis: "step" | "time" | "tokens" | "episodes";
        /**
         * MetricColumn
         * @description One measure, an entry per point: that of the point's last step, None where it lacks the measure.
         *
         *     ``low`` and ``high`` are the extremes among all steps of each point; None where every point is one step, or where they were not asked for.
         */
        MetricColumn: {
            high: (number | null)[] | null;
            last: (number | null)[];
            low: (number | null)[] | null;
        };
        /**
         * MetricColumns
         * @description ``x`` and ``steps`` are those of the last step of each point. Entries of the record after ``cursor`` are new.
         */
        MetricColumns: {
            axis: components["schemas"]["MetricAxis"];
            columns: {
                [key: string]: components["schemas"]["MetricColumn"];
            };
            /** @description What to follow the record after, to miss nothing and see nothing twice. */
            cursor: number;
            steps: number[];
            /** @description Steps that the points stand for. */
            steps_in_all: number;
            x: number[];
        };
        /**
         * MetricRuleCreate
         * @description ``POST /v1/alert-rules``: raise an alert of a run while a measure of its steps is beyond a bound.
         */
        MetricRuleCreate: {
            /** @description Raised above the value; false: below it. */
            above: boolean;
            /** @description A field of a step's metrics, such as reward_mean, or what agents measure: metrics/<name>. */
            metric: string;
            /** @description Latin letters, digits, spaces, _ and -; it stands in mails. */
            name: string;
            /**
             * @description Only runs with this in their name or id, in any case; empty: every run.
             * @default
             */
            runs?: string;
            /**
             * @description In the run's last so many steps that have the measure.
             * @default 5
             */
            steps?: number;
            value: number;
        };
        /**
         * MetricRuleList
         * @description All of the project's, the oldest first.
         */
        MetricRuleList: {
            items: components["schemas"]["MetricRuleView"][];
        };
        /**
         * MetricRuleUpdate
         * @description ``PATCH /v1/alert-rules/{rule_id}``: what is given is changed. What the rule had found is over.
         */
        MetricRuleUpdate: {
            above?: boolean;
            /** @description A field of a step's metrics, such as reward_mean, or what agents measure: metrics/<name>. */
            metric?: string;
            /** @description Latin letters, digits, spaces, _ and -; it stands in mails. */
            name?: string;
            /** @description Only runs with this in their name or id, in any case; empty: every run. */
            runs?: string;
            /** @description In the run's last so many steps that have the measure. */
            steps?: number;
            value?: number;
        };
        /**
         * MetricRuleView
         * @description One rule.
         */
        MetricRuleView: {
            above: boolean;
            /** Format: date-time */
            created_at: string;
            id: string;
            metric: string;
            name: string;
            runs: string;
            steps: number;
            value: number;
        };
        /**
         * ModelCalls
         * @description ``GET /v1/sessions/{id}/tinker/{model_id}/calls``: what the calls of a model returned, oldest first.
         *
         *     ``numbers`` and ``steps``: of the point's last call its number among those of its kind, from 1 on, and how many optimizer steps were done by then, its own included.
         */
        ModelCalls: {
            calls_in_all: number;
            /** @description Calls that the points stand for. */
            calls_within: number;
            columns: {
                [key: string]: components["schemas"]["CallColumn"];
            };
            numbers: number[];
            steps: number[];
            tokens: number[];
        };
        /**
         * NearPlay
         * @description What a task earned under the version at which it was played nearest to the one that was asked for.
         */
        NearPlay: {
            episodes: number;
            /** @description The mean of those that have one. */
            reward: number;
            version: number;
        };
        /**
         * NearestPlays
         * @description ``GET .../episodes/nearest``: the tasks that were played near both versions, what lost most first.
         */
        NearestPlays: {
            /** @description 200 at most. */
            items: components["schemas"]["ComparedTask"][];
            /** @description Plays at most so many versions away are compared: the first of 0, 4, 16, 64, 256 and any (null) that has a task near both. */
            reach: number | null;
            tasks_in_all: number;
        };
        /**
         * OutsideAnswer
         * @description What the endpoint returned, whether it is an answer or a refusal of its own.
         */
        OutsideAnswer: {
            body: {
                [key: string]: unknown;
            };
            status: number;
        };
        /**
         * OutsideCall
         * @description ``POST /v1/outside-calls``: one chat completion of another OpenAI-compatible endpoint.
         */
        OutsideCall: {
            /**
             * @description Sent there, and kept nowhere.
             * @default
             */
            api_key?: string;
            /** @description Without /chat/completions. */
            base_url: string;
            /** @description As that endpoint takes it; never streamed. */
            body: {
                [key: string]: unknown;
            };
        };
        /**
         * PayerUsage
         * @description What the sessions of one key or one member used, deleted ones too.
         */
        PayerUsage: {
            cost: number | null;
            device_s: number;
            /** @description Of the key or the member; none: no longer known, or no longer a member. */
            id: string | null;
            name: string;
        };
        /**
         * PeriodUsage
         * @description What one payer used in the whole period.
         */
        PeriodUsage: {
            /** @description Of a key: how many device-seconds it may use, ever. */
            cap_s: number | null;
            cost: number | null;
            device_s: number;
            /** @description Of a key with a cap: how many it used, ever. */
            ever_s: number | null;
            gpu_s: number;
            id: string | null;
            name: string;
            runtime_s: number;
        };
        /**
         * PlaceList
         * @description The places of this server.
         */
        PlaceList: {
            items: components["schemas"]["PlaceView"][];
        };
        /**
         * PlaceView
         * @description One of them. A session names it, or its kind, in ``config.place``.
         */
        PlaceView: {
            /** @description What the operator calls its machines, such as h100x8; empty for `here`. */
            kind: string;
            /** @description process, docker, kubernetes, slurm or ray. */
            launcher: string;
            /** @description So many sessions run there at once. */
            max_runtimes: number;
            /** @description `here` is the one that every server has. */
            name: string;
            queued: number;
            /** @description Sessions of the project; for an operator those of all projects. */
            running: number;
        };
        /**
         * ProjectCreate
         * @description ``POST /v1/projects``. The caller who makes it owns it.
         */
        ProjectCreate: {
            name: string;
        };
        /**
         * ProjectList
         * @description Those that the caller is in, oldest first.
         */
        ProjectList: {
            items: components["schemas"]["ProjectView"][];
        };
        /**
         * ProjectUpdate
         * @description ``PATCH /v1/projects/{id}``.
         */
        ProjectUpdate: {
            name: string;
        };
        /**
         * ProjectUse
         * @description What one project has of the server.
         */
        ProjectUse: {
            device_quota: number | null;
            /** @description A runtime without a GPU counts as one, as for the quota. */
            devices: number;
            name: string;
            project_id: string;
            runtimes: number;
            waiting: number;
        };
        /**
         * ProjectView
         * @description A project and the caller's role in it.
         */
        ProjectView: {
            id: string;
            name: string;
            role: components["schemas"]["Role"];
        };
        /**
         * Quotas
         * @description What the project has now. Limits are set by who runs the server, with ``manage.py set_quota``.
         */
        Quotas: {
            /** @description GPUs of its runtimes; a runtime without one counts as one. */
            devices: components["schemas"]["Held"];
            /** @description Sessions that have not ended. */
            sessions: components["schemas"]["Held"];
            /** @description Checkpoints, archived episodes, copies of journals and uploads under way. */
            storage_bytes: components["schemas"]["Held"];
        };
        /**
         * RefusedCall
         * @description A call that the gateway refused. Nothing was sampled for it.
         */
        RefusedCall: {
            /** @description Unix time in seconds. */
            at: number;
            message: string;
            /** @description With its method, below the episode's base_url. */
            path: string;
            status: number;
        };
        /**
         * RefusedCalls
         * @description What was refused of an episode's calls: how many, and the last messages, of which none follows its equal.
         */
        RefusedCalls: {
            count: number;
            last: components["schemas"]["RefusedCall"][];
        };
        /**
         * ResourceColumn
         * @description One measure, an entry per point: the mean of its samples and their extremes.
         *
         *     None where no sample has it.
         */
        ResourceColumn: {
            high: (number | null)[] | null;
            /** @description None where every point is one sample. */
            low: (number | null)[] | null;
            mean: (number | null)[];
        };
        /**
         * ResourceColumns
         * @description ``x`` is in seconds since the session was created, of the last sample of each point.
         *
         *     Columns are those of ResourceSample, ``store_bytes`` (what the session has in the object store), and of each GPU ``gpu0_busy``, ``gpu0_memory_bytes`` and ``gpu0_power_w``. ``latest`` has what does not change: totals and names.
         *
         *     Kept are all of the last day of samples, and one of each five minutes of the thirty days before that.
         */
        ResourceColumns: {
            columns: {
                [key: string]: components["schemas"]["ResourceColumn"];
            };
            latest: components["schemas"]["ResourceSample"] | null;
            /** @description Kept samples, which the points stand for. */
            samples_in_all: number;
            x: number[];
        };
        /**
         * ResourceSample
         * @description Of the runtime's processes and of the machine, or the part of it that the runtime may use.
         */
        ResourceSample: {
            /** @description That it may use. */
            cores: number;
            /** @description Cores that its processes kept busy since the last one. */
            cpu_cores: number;
            /** @description Where the runtime's folder is. */
            disk_free_bytes: number;
            disk_total_bytes: number;
            /** @default [] */
            gpus?: components["schemas"]["GpuSample"][];
            /** @description Resident; a page that two processes share counts twice. */
            memory_bytes: number;
            memory_total_bytes: number;
            /** @description Of memory_total_bytes, by whichever process. */
            memory_used_bytes: number;
        };
        /**
         * RewardBucket
         * @description Episodes whose rewards are beside each other. ``lowest`` and ``highest`` are rewards that there are.
         *
         *     As ``reward_min`` and ``reward_max`` of the list they ask for exactly these episodes.
         */
        RewardBucket: {
            count: number;
            highest: number;
            lowest: number;
        };
        /**
         * RewardChange
         * @description An episode's reward that was replaced before it was trained.
         */
        RewardChange: {
            /** @description Unix time in seconds. */
            at: number;
            episode_id: string;
            reward: number;
            /** @description Its number among the changes of the session. */
            seq: number;
            was: number;
        };
        /**
         * Role
         * @description What a member may do in a project.
         * @enum {string}
         */
        Role: "owner" | "member" | "viewer";
        /**
         * RunningSession
         * @description A session that has a runtime.
         */
        RunningSession: {
            /** @description Of the server's machine; empty on CPUs, and where a cluster chose them. */
            devices: string[];
            name: string;
            session_id: string;
            /**
             * Format: date-time
             * @description It is in this state.
             */
            since: string;
            state: components["schemas"]["SessionState"];
        };
        /**
         * SampleFate
         * @description What became of a completed episode.
         * @enum {string}
         */
        SampleFate: "accepted" | "trained" | "eval" | "stale";
        /**
         * SampledAnswer
         * @description One answer of a call, token by token: the four lists have the same length.
         */
        SampledAnswer: {
            finish_reason: string | null;
            index: number;
            /** @description Natural logarithms of the distribution that each token was sampled from, which is what training compares with: after the temperature (options.sampling), top_p, and what a response_format or a forced tool call allows. */
            logprobs: number[];
            message: {
                [key: string]: unknown;
            };
            /** @description The policy version whose weights sampled each token. */
            policy_versions: number[];
            /** @description The model's own, at temperature 1 over all token ids; null where they were not recorded: of a call that is not trained or was recorded before they were, if sampling changed the distribution. */
            raw_logprobs: number[] | null;
            token_ids: number[];
        };
        /**
         * SavedViewCreate
         * @description ``POST /v1/saved-views``: keep how the charts of a run are looked at.
         */
        SavedViewCreate: {
            /** @description What the address of a run's page has behind its ?: x=time&open=speed. */
            address: string;
            name: string;
            /** @default false */
            pinned?: boolean;
        };
        /**
         * SavedViewList
         * @description All of the project's: pinned ones first, then by name.
         */
        SavedViewList: {
            items: components["schemas"]["SavedViewView"][];
        };
        /**
         * SavedViewUpdate
         * @description ``PATCH /v1/saved-views/{view_id}``: what is given is changed.
         */
        SavedViewUpdate: {
            /** @description What the address of a run's page has behind its ?: x=time&open=speed. */
            address?: string;
            name?: string;
            pinned?: boolean;
        };
        /**
         * SavedViewView
         * @description One view.
         */
        SavedViewView: {
            address: string;
            /** Format: date-time */
            created_at: string;
            id: string;
            name: string;
            /** @description It stands before the others. */
            pinned: boolean;
        };
        /**
         * Scope
         * @description What a key may do. ``admin`` includes all the others.
         * @enum {string}
         */
        Scope: "sessions:read" | "sessions:write" | "episodes" | "checkpoints:read" | "admin";
        /**
         * ServerCapacity
         * @description The server as a whole.
         */
        ServerCapacity: {
            /** @description Of this machine; empty without GPUs, and where a cluster has them. */
            devices: components["schemas"]["DeviceUse"][];
            oldest_waits_since: string | null;
            /** @description Those with a runtime or a queue, the one with most devices first. */
            projects: components["schemas"]["ProjectUse"][];
            /** @description Sessions with a runtime, of all projects. */
            runtimes: number;
            /** @description Queued sessions of all projects. */
            waiting: number;
            /** @description Runtimes that wait for a session with their libraries. */
            warm_runtimes: number;
        };
        /**
         * ServerView
         * @description ``GET /v1/server``. docs/compatibility.md has the rule.
         */
        ServerView: {
            /** @description What not every version has, by name; a client asks here before it uses one. */
            capabilities: string[];
            /** @description The oldest client that this server serves. */
            minimum_client: string;
            /** @description major.minor.patch. */
            version: string;
        };
        /**
         * ServingCreate
         * @description ``POST /v1/serving``. The rest of a session's options is about training, and has no place here.
         */
        ServingCreate: {
            /**
             * @description device_s and wall_s; at a limit it stops.
             * @default {
             *       "device_s": null,
             *       "steps": null,
             *       "wall_s": null
             *     }
             */
            budget?: components["schemas"]["Budget"];
            /**
             * @description It suspends after so long without a call.
             * @default 600
             */
            idle_suspend_s?: number;
            /** @description Prompt plus answer of one call, in tokens. None: 2048, or what the model reads if less. */
            max_context_length?: number | null;
            /** @description Answer length when a call does not say. None: 256, or max_context_length if less. */
            max_tokens?: number | null;
            /** @description A base model (GET /v1/base-models), or the id of a committed checkpoint of kind model. */
            model: string;
            /**
             * @description Other names of the model in calls: none, any, or a map of names to the calls' agents.
             * @default own
             */
            model_names?: ("own" | "any") | {
                [key: string]: string;
            };
            /**
             * @description What the console calls it; the id when empty.
             * @default
             */
            name?: string;
            /**
             * @description Among the project's own queued sessions, higher goes first.
             * @default 0
             */
            priority?: number;
            /**
             * @description Sampling temperature when a call does not say.
             * @default 1
             */
            temperature?: number;
        };
        /**
         * ServingEndpoint
         * @description The only response that carries the key. It is of this session alone, and ends with who asked for it.
         */
        ServingEndpoint: {
            /** @description For Anthropic's clients. */
            anthropic_base_url: string;
            api_key: string;
            /** @description For OpenAI's clients. */
            base_url: string;
            /** Format: date-time */
            expires_at: string;
            /** @description What to send as `model`. */
            model: string;
            session_id: string;
        };
        /**
         * ServingKeyCreate
         * @description ``POST /v1/sessions/{id}/serving-keys``.
         */
        ServingKeyCreate: {
            /** @default 30 */
            expires_in_days?: number;
        };
        /**
         * SessionConfig
         * @description The options of a training session. Bounds are checked when the session is created.
         *
         *     Lengths are in tokens, times in seconds, sizes in episodes or groups as named.
         */
        SessionConfig: {
            /**
             * @description AdamW: decay of the mean of gradients.
             * @default 0.9
             */
            adam_beta1?: number;
            /**
             * @description AdamW: decay of the mean of squared gradients.
             * @default 0.999
             */
            adam_beta2?: number;
            /**
             * @description AdamW: added to the root of the second moment.
             * @default 1e-8
             */
            adam_eps?: number;
            /**
             * @description What a reward is compared with: the mean (and standard deviation) of its group, of the others in it, or of the whole batch.
             * @default group
             * @enum {string}
             */
            advantage_baseline?: "group" | "leave_one_out" | "batch";
            /**
             * @description Returns-to-go of rewards_by_call: a call is credited with its own reward plus this times the next call's return. 0: its own reward alone; 1: all that came after it.
             * @default 0
             */
            call_discount?: number;
            /**
             * @description Steps between `state` checkpoints.
             * @default 10
             */
            checkpoint_every_steps?: number;
            /** @description Ratio clip above 1, of updates after the first. None: the loss's own (GRPO, PPO 0.2; DAPO 0.28; GSPO 4e-4; CISPO 4). */
            clip_high?: number | null;
            /** @description Ratio clip below 1, of updates after the first. None: the loss's own (GRPO, PPO, DAPO 0.2; GSPO 3e-4; CISPO no floor). */
            clip_low?: number | null;
            /** @description GPUs of this session, within the project's quota; none: as many as the server gives each session. */
            devices?: number | null;
            /**
             * @description DRO: weight of the squared log-ratio (Tinker: 0.05).
             * @default 0.05
             */
            dro_beta?: number;
            /**
             * @description auto: float32 on CPU, bfloat16 on GPU.
             * @default auto
             * @enum {string}
             */
            dtype?: "auto" | "float32" | "bfloat16";
            /** @description The most that a ratio may weigh where the advantage is negative; 3 is usual. None: no bound. */
            dual_clip?: number | null;
            /**
             * @description Set groups of equal rewards aside before the batch, and wait for others in their place.
             * @default false
             */
            dynamic_sampling?: boolean;
            /**
             * @description What a token counts whose log-probability the engine, or older weights, gave otherwise than the trainer before the step: weight, mask and veto by trainer / engine.
             * @default {
             *       "mask": "token",
             *       "mask_high": 8,
             *       "mask_low": 0.125,
             *       "veto": null,
             *       "weight": "token",
             *       "weight_high": 2,
             *       "weight_low": null
             *     }
             */
            engine_correction?: components["schemas"]["EngineCorrection"];
            /**
             * @description Weight of the entropy of sampled positions, as a bonus.
             * @default 0
             */
            entropy_coef?: number;
            /** @description Adapt entropy_coef, its first value, by 0.005 a step to hold the entropy (nats) at this. */
            entropy_target?: number | null;
            /**
             * @description An episode with no call or heartbeat expires.
             * @default 600
             */
            episode_idle_timeout_s?: number;
            /**
             * @description The deadline of one without its own.
             * @default 3600
             */
            episode_timeout_s?: number;
            /**
             * @description Passes over a batch.
             * @default 1
             */
            epochs?: number;
            /**
             * @description Maximum global gradient norm.
             * @default 1
             */
            grad_clip?: number;
            /**
             * @description A step whose gradient norm, before the clip, is above this is refused.
             * @default 1000
             */
            grad_norm_limit?: number;
            /**
             * @description Recompute activations in the backward pass.
             * @default false
             */
            gradient_checkpointing?: boolean;
            /** @description Train a group of at least two as it is once a member has waited so long. None: wait for grpo_n. */
            group_timeout_s?: number | null;
            /**
             * @description Episodes per group: attempts at one task that share a baseline.
             * @default 8
             */
            grpo_n?: number;
            /**
             * @description A session with no episode suspends after this.
             * @default 3600
             */
            idle_suspend_s?: number;
            /**
             * @description Seconds between two copies of the journal.
             * @default 60
             */
            journal_interval_s?: number;
            /** @description Of each group of grpo_n train the so many whose rewards differ most. None: all of them. */
            keep_n?: number | null;
            /**
             * @description Weight of a second KL term, to the base model beside a moving reference.
             * @default 0
             */
            kl_base_coef?: number;
            /**
             * @description Weight of the KL term to the reference; 0 loads no reference.
             * @default 0
             */
            kl_coef?: number;
            /**
             * @description How the KL term is estimated on sampled tokens.
             * @default k3
             * @enum {string}
             */
            kl_estimator?: "k2" | "k3";
            /**
             * @description The KL term is added to the loss of each token, or taken from the reward of the episode.
             * @default loss
             * @enum {string}
             */
            kl_in?: "loss" | "reward";
            /** @description End the updates of a step once the mean KL from the policy before it is above this; 0.015 is usual. None: all of them. */
            kl_stop?: number | null;
            /** @description AdamW peak learning rate. None: by the model's size, 2e-5 up to 0.5B weights, 5e-6 up to 2B, 2e-6 up to 5B, else 1e-6; LoRA: ten times as much. */
            learning_rate?: number | null;
            /**
             * @description Times what is added to a reward for its length within the group: 1/2 for the shortest attempt to -1/2 for the longest, nothing above 0 for a failed one.
             * @default 0
             */
            length_penalty?: number;
            /**
             * @description Keep the trainer's log-probability of each trained token after its step too.
             * @default false
             */
            logprobs_after_step?: boolean;
            /**
             * @description LoRA: an adapter counts alpha / rank times.
             * @default 32
             */
            lora_alpha?: number;
            /**
             * @description Rank of LoRA adapters; 0 trains every weight.
             * @default 0
             */
            lora_rank?: number;
            /**
             * @description LoRA: which linear layers get an adapter.
             * @default all-linear
             * @enum {string}
             */
            lora_targets?: "all-linear" | "attention" | "mlp";
            /**
             * @description Policy loss. cross_entropy: log-probabilities weighted by advantage.
             * @default grpo
             * @enum {string}
             */
            loss?: "grpo" | "dr_grpo" | "dapo" | "gspo" | "cispo" | "ppo" | "importance_sampling" | "dro" | "cross_entropy";
            /**
             * @description Where a schedule ends, as a part of the peak.
             * @default 0.1
             */
            lr_min_ratio?: number;
            /**
             * @description From the peak down to its minimum at max_steps, which must then be set.
             * @default constant
             * @enum {string}
             */
            lr_schedule?: "constant" | "linear" | "cosine";
            /**
             * @description Leave answers that max_tokens cut off out of the loss; their rewards stay in the baseline.
             * @default false
             */
            mask_truncated?: boolean;
            /**
             * @description Prompt plus answer of one call, in tokens.
             * @default 2048
             */
            max_context_length?: number;
            /**
             * @description How many versions old an episode may be when trained; 0 is strictly on-policy.
             * @default 0
             */
            max_staleness?: number;
            /** @description Stop training after this many steps; none means no limit. */
            max_steps?: number | null;
            /**
             * @description Answer length when a call does not say.
             * @default 256
             */
            max_tokens?: number;
            /**
             * @description Tokens per forward/backward pass; bounds memory.
             * @default 4096
             */
            micro_batch_tokens?: number;
            /**
             * @description Optimizer updates per pass over a batch, each on a part of its groups.
             * @default 1
             */
            minibatches?: number;
            /**
             * @description Other names of the model in calls: none, any, or a map of names to the calls' agents.
             * @default own
             */
            model_names?: ("own" | "any") | {
                [key: string]: string;
            };
            /**
             * @description Machines that the trainer's ranks are spread over, evenly, by Ray; each has an engine of its own. More than 1 with the launchers ray, slurm and kubernetes.
             * @default 1
             */
            nodes?: number;
            /** @description Divide group advantages by their standard deviation. None: as published, so not with loss dr_grpo or advantage_baseline leave_one_out. */
            normalize_advantage?: boolean | null;
            /**
             * @description Keep what gradient_checkpointing saves in host memory. On a CPU, where it is, refused.
             * @default false
             */
            offload_activations?: boolean;
            /**
             * @description Keep AdamW's moments in host memory. On a CPU, where they are there already, refused.
             * @default false
             */
            offload_optimizer?: boolean;
            /**
             * @description Of the last so many tokens before max_tokens each costs a part of 1 reward.
             * @default 0
             */
            overlong_buffer?: number;
            /**
             * @description Where the session runs: a place of the server, or a kind of machines that some of its places have, such as h100x8. GET /v1/places lists them.
             * @default here
             */
            place?: string;
            /**
             * @description Engine and trainer on one GPU, by turns (shared), or each on its own (split); auto: split where there are enough. On a CPU, where both use all of it, only auto.
             * @default auto
             * @enum {string}
             */
            placement?: "auto" | "shared" | "split";
            /** @description The reference of the KL term follows the policy: this part of it stays after each update (EMA). None: the base model. */
            reference_decay?: number | null;
            /**
             * @description Of a mixture of experts: whether its routers are trained, as all else is.
             * @default trained
             * @enum {string}
             */
            router?: "trained" | "frozen";
            /**
             * @description Of a mixture of experts: record the experts that sampled each token, and have the trainer compute it by the same ones. A byte for each chosen expert of each layer.
             * @default true
             */
            routing_replay?: boolean;
            /**
             * @description One seed for sampling order, batches, initial noise and new LoRA weights.
             * @default 0
             */
            seed?: number;
            /**
             * @description The ranks share the tokens, and so the activations, of each row (Ulysses). On CPUs alone.
             * @default false
             */
            sequence_parallel?: boolean;
            /**
             * @description Groups per step.
             * @default 4
             */
            tasks_per_batch?: number;
            /**
             * @description Sampling temperature when a call does not say.
             * @default 1
             */
            temperature?: number;
            /**
             * @description The letters of a template's mark (such as <|im_end|>) in a message are text, or the mark itself.
             * @default text
             * @enum {string}
             */
            text_marks?: "text" | "tokens";
            /**
             * @description Calls with slips (a mark that is missing, a call inside thoughts) are read as vLLM reads them, or are plain text.
             * @default lenient
             * @enum {string}
             */
            tool_parsing?: "lenient" | "strict";
            /**
             * @description Train the calls without tools of an episode that has others with them: coding agents write titles and summaries so.
             * @default true
             */
            train_calls_without_tools?: boolean;
            /**
             * @description Trainer processes (one per device).
             * @default 1
             */
            trainer_ranks?: number;
            /**
             * @description Efforts that the template has not.
             * @default label
             * @enum {string}
             */
            unsupported_effort?: "label" | "refuse";
            /**
             * @description Calls of training episodes that sample as the trainer cannot compute: refused, or their episode is evaluated and not trained.
             * @default refuse
             * @enum {string}
             */
            unsupported_sampling?: "refuse" | "eval_only";
            /**
             * @description Steps of linear warm-up.
             * @default 0
             */
            warmup_steps?: number;
            /**
             * @description AdamW: decoupled weight decay.
             * @default 0
             */
            weight_decay?: number;
            /**
             * @description DeepSpeed ZeRO stage.
             * @default 2
             * @enum {integer}
             */
            zero_stage?: 1 | 2 | 3;
        };
        /**
         * SessionCreate
         * @description ``POST /v1/sessions``, and ``POST /v1/sessions/dry-run`` with the same body.
         */
        SessionCreate: {
            /** @description A name in the catalogue (GET /v1/base-models), or what this project has trained: the id of a committed checkpoint (ckp_...), or the path that a Tinker client saved it under (tinker://...). */
            base_model: string;
            /**
             * @default {
             *       "device_s": null,
             *       "steps": null,
             *       "wall_s": null
             *     }
             */
            budget?: components["schemas"]["Budget"];
            /**
             * @default {
             *       "adam_beta1": 0.9,
             *       "adam_beta2": 0.999,
             *       "adam_eps": 1e-8,
             *       "advantage_baseline": "group",
             *       "call_discount": 0,
             *       "checkpoint_every_steps": 10,
             *       "clip_high": null,
             *       "clip_low": null,
             *       "devices": null,
             *       "dro_beta": 0.05,
             *       "dtype": "auto",
             *       "dual_clip": null,
             *       "dynamic_sampling": false,
             *       "engine_correction": {
             *         "mask": "token",
             *         "mask_high": 8,
             *         "mask_low": 0.125,
             *         "veto": null,
             *         "weight": "token",
             *         "weight_high": 2,
             *         "weight_low": null
             *       },
             *       "entropy_coef": 0,
             *       "entropy_target": null,
             *       "episode_idle_timeout_s": 600,
             *       "episode_timeout_s": 3600,
             *       "epochs": 1,
             *       "grad_clip": 1,
             *       "grad_norm_limit": 1000,
             *       "gradient_checkpointing": false,
             *       "group_timeout_s": null,
             *       "grpo_n": 8,
             *       "idle_suspend_s": 3600,
             *       "journal_interval_s": 60,
             *       "keep_n": null,
             *       "kl_base_coef": 0,
             *       "kl_coef": 0,
             *       "kl_estimator": "k3",
             *       "kl_in": "loss",
             *       "kl_stop": null,
             *       "learning_rate": null,
             *       "length_penalty": 0,
             *       "logprobs_after_step": false,
             *       "lora_alpha": 32,
             *       "lora_rank": 0,
             *       "lora_targets": "all-linear",
             *       "loss": "grpo",
             *       "lr_min_ratio": 0.1,
             *       "lr_schedule": "constant",
             *       "mask_truncated": false,
             *       "max_context_length": 2048,
             *       "max_staleness": 0,
             *       "max_steps": null,
             *       "max_tokens": 256,
             *       "micro_batch_tokens": 4096,
             *       "minibatches": 1,
             *       "model_names": "own",
             *       "nodes": 1,
             *       "normalize_advantage": null,
             *       "offload_activations": false,
             *       "offload_optimizer": false,
             *       "overlong_buffer": 0,
             *       "place": "here",
             *       "placement": "auto",
             *       "reference_decay": null,
             *       "router": "trained",
             *       "routing_replay": true,
             *       "seed": 0,
             *       "sequence_parallel": false,
             *       "tasks_per_batch": 4,
             *       "temperature": 1,
             *       "text_marks": "text",
             *       "tool_parsing": "lenient",
             *       "train_calls_without_tools": true,
             *       "trainer_ranks": 1,
             *       "unsupported_effort": "label",
             *       "unsupported_sampling": "refuse",
             *       "warmup_steps": 0,
             *       "weight_decay": 0,
             *       "zero_stage": 2
             *     }
             */
            config?: components["schemas"]["SessionConfig"];
            /**
             * @description What the console calls it; the id when empty.
             * @default
             */
            name?: string;
            /**
             * @description Among the project's own queued sessions, higher goes first.
             * @default 0
             */
            priority?: number;
        };
        /**
         * SessionKind
         * @description Who drives a session: its episodes, a Tinker client's primitives, or calls of a model that is not trained.
         * @enum {string}
         */
        SessionKind: "episodes" | "tinker" | "serving";
        /**
         * SessionList
         * @description One page, newest first.
         */
        SessionList: {
            items: components["schemas"]["SessionView"][];
            next_cursor: string | null;
        };
        /**
         * SessionLogs
         * @description What the session's runtime, or its last one, wrote last, oldest first; empty before the first.
         *
         *     With ``after`` what came after that place, in the runtimes that followed too: of the last ten the end is kept.
         */
        SessionLogs: {
            /**
             * @description The first line is the rest of the last one before it, which was not finished then.
             * @default false
             */
            continues: boolean;
            /**
             * @description What to pass as ``after`` to go on behind these lines, and those without q.
             * @default
             */
            cursor: string;
            /**
             * @description Lines between ``after`` and the first of these are not kept any more.
             * @default false
             */
            is_cut: boolean;
            lines: string[];
        };
        /**
         * SessionPlan
         * @description What would be started. ``config`` is the effective one: every option with the value that it would have.
         */
        SessionPlan: {
            /** @description In the catalogue. Of a session that begins from a checkpoint, that one's own. */
            base_model: string;
            config: components["schemas"]["SessionConfig"];
            /** @description Of a mixture of experts: how many of its weights compute a token; None of any other model. */
            experts: string | null;
            /** @description None where the model's size is not known. */
            memory: components["schemas"]["MemoryEstimate"] | null;
            /** @description What one runtime may use; None where it is not known. */
            memory_limit_bytes: number | null;
            /** @description That the model's layers share no prefixes, why, and what it costs; None where they do. */
            prefixes: string | null;
            /** @description That the model's folder is quantised, and that its weights are computed in full before they are trained; None of any other. */
            quantised: string | null;
            /** @description Where it would stand now; 1 is next. */
            queue_position: number;
            started_from: components["schemas"]["StartedFrom"] | null;
        };
        /**
         * SessionSort
         * @description How the list of sessions is sorted.
         * @enum {string}
         */
        SessionSort: "newest" | "pinned" | "name" | "reward" | "steps" | "active" | "device_time" | "measure";
        /**
         * SessionSpending
         * @description ``GET /v1/sessions/{id}/usage``: what the session used up to its runtime's last heartbeat.
         */
        SessionSpending: {
            /** @description At the prices of today; none: the server has none. */
            cost: number | null;
            /** @description Once its runtime has registered; none: it has none now, or no price. */
            cost_per_hour: number | null;
            /** @description The same, times its GPUs; a runtime without one counts as one. */
            device_s: number;
            /**
             * @description Those that it has; spend_cap_s for people, keys with the admin scope and the very key alone.
             * @default []
             */
            limits: components["schemas"]["LimitForecast"][];
            /** @description None: no money is shown. */
            prices: components["schemas"]["DevicePrices"] | null;
            /** @description Seconds in which a runtime held it. */
            runtime_s: number;
        };
        /**
         * SessionState
         * @description Where a session stands. The allowed moves are one table: console/sessions/states.py.
         * @enum {string}
         */
        SessionState: "queued" | "provisioning" | "loading" | "ready" | "suspended" | "stopping" | "stopped" | "failed" | "cancelled";
        /**
         * SessionUpdate
         * @description ``PATCH /v1/sessions/{id}``, in every state: what people write on a session. What is absent stays as it is.
         */
        SessionUpdate: {
            /** @description Empty: its id. */
            name?: string | null;
            notes?: string | null;
            pinned?: boolean | null;
            /** @description All of them; each is kept once. */
            tags?: string[] | null;
        };
        /**
         * SessionUsage
         * @description Runtime and GPU seconds, steps and trained tokens of one session.
         */
        SessionUsage: {
            base_model: string;
            /** @description At the prices of today; none: the server has none. */
            cost: number | null;
            /** Format: date-time */
            created_at: string;
            /**
             * @description The same as gpu_s, with a runtime without GPU as one device.
             * @default 0
             */
            device_s: number;
            /** @description The same, times the GPUs of the runtime. */
            gpu_s: number;
            name: string;
            /** @description Seconds in which a runtime held the session, from its registration on. */
            runtime_s: number;
            session_id: string;
            steps: number;
            tokens_trained: number;
        };
        /**
         * SessionView
         * @description What a client may know of a session. ``policy_version`` counts the steps whose weights the engine serves.
         */
        SessionView: {
            /**
             * @default {
             *       "abandoned": 0,
             *       "abandoned_by_reason": {},
             *       "begun": 0,
             *       "eval": 0,
             *       "expired": 0,
             *       "open": 0,
             *       "stale": 0,
             *       "trained": 0,
             *       "waiting": 0
             *     }
             */
            accounting: components["schemas"]["Accounting"];
            /** @description In the catalogue. Of a session that began from a checkpoint, that one's own. */
            base_model: string;
            /**
             * @default {
             *       "device_s": null,
             *       "steps": null,
             *       "wall_s": null
             *     }
             */
            budget: components["schemas"]["Budget"];
            /** @description The effective one: every option, also those that were not given. */
            config: components["schemas"]["SessionConfig"];
            /** Format: date-time */
            created_at: string;
            /**
             * @description Options of it that have the value which the base model or the loss gives them: who copies the configuration leaves these out, so that another one gives its own.
             * @default []
             */
            decided: string[];
            /** @description Long after its end: since when the server keeps none of its episodes any more. */
            episodes_removed_at: string | null;
            failure: components["schemas"]["Failure"] | null;
            id: string;
            /** @default episodes */
            kind: components["schemas"]["SessionKind"];
            /** @description Of a list that was asked for them: the measures of its last step, by the names of columns of GET .../metrics. */
            measures: {
                [key: string]: number;
            } | null;
            name: string;
            /** @default  */
            notes: string;
            /**
             * @description What it is doing inside its state, in words.
             * @default
             */
            phase: string;
            /** @default false */
            pinned: boolean;
            /** @default 0 */
            policy_version: number;
            /** @default 0 */
            priority: number;
            project_id: string;
            /** @description 1 is next; only while queued. */
            queue_position: number | null;
            /**
             * @description How often it lost its runtime and was queued again, ever.
             * @default 0
             */
            restarts: number;
            /** @description Mean reward of the latest trained batch. */
            reward_mean: number | null;
            /** @description Of kind serving: the checkpoint that it serves; none: the base model. */
            served_checkpoint_id: string | null;
            /** @description None: from the base model itself. */
            started_from: components["schemas"]["StartedFrom"] | null;
            state: components["schemas"]["SessionState"];
            /** @default [] */
            tags: string[];
            /** Format: date-time */
            updated_at: string;
        };
        /**
         * ShareCreate
         * @description ``POST /v1/sessions/{id}/shares``.
         */
        ShareCreate: {
            /** @default 7 */
            expires_in_days?: number;
        };
        /**
         * ShareCreated
         * @description ``url`` is shown this once. Its part after # is the token: browsers send that to no server by themselves.
         */
        ShareCreated: {
            /** @description The e-mail address of the person who made it. */
            by: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string;
            id: string;
            url: string;
        };
        /**
         * ShareList
         * @description Those that read the session now, newest first.
         */
        ShareList: {
            items: components["schemas"]["ShareView"][];
        };
        /**
         * ShareView
         * @description A link that reads a session until it expires, is revoked, or its maker may not change the session any more.
         */
        ShareView: {
            /** @description The e-mail address of the person who made it. */
            by: string;
            /** Format: date-time */
            created_at: string;
            /** Format: date-time */
            expires_at: string;
            id: string;
        };
        /**
         * SharedRun
         * @description What a link shows of its session: no notes, no people, no causes of failures, which may name the machine.
         */
        SharedRun: {
            accounting: components["schemas"]["Accounting"];
            base_model: string;
            config: components["schemas"]["SessionConfig"];
            /** Format: date-time */
            created_at: string;
            /**
             * Format: date-time
             * @description When the link ends.
             */
            expires_at: string;
            name: string;
            policy_version: number;
            reward_mean: number | null;
            state: components["schemas"]["SessionState"];
        };
        /**
         * SignInList
         * @description ``GET /v1/account/sign-ins``: newest first, of this person alone; no key may see it.
         */
        SignInList: {
            items: components["schemas"]["SignInView"][];
        };
        /**
         * SignInView
         * @description One thing that happened to how the caller comes in: a sign-in, a refused one, a changed password or factor.
         *
         *     ``address`` and ``agent`` are those of the browser that did it, as far as the server can see.
         */
        SignInView: {
            action: string;
            address: string;
            agent: string;
            /** Format: date-time */
            at: string;
            request_id: string;
        };
        /**
         * StartedFrom
         * @description The checkpoint that a session began from. It is recorded for good; the checkpoint may be deleted later.
         *
         *     Of a ``model``, and of what a Tinker client saved, come the weights alone; of another ``state`` the optimizer's moments too. Steps count from 0 again.
         */
        StartedFrom: {
            checkpoint_id: string;
            kind: components["schemas"]["CheckpointKind"];
            session_id: string;
            step: number;
            /** @description As a Tinker client named it. */
            tinker_path: string | null;
        };
        /**
         * StepMetrics
         * @description One optimizer step, as measured. Times are seconds, norms are L2.
         */
        StepMetrics: {
            /** @description Spread of the answers within groups: 0 where all are the same, 1 where no two are. */
            answers_distinct: number | null;
            /** @description Share of trained tokens that the loss's clip or a bound of engine_correction changes. */
            clip_fraction: number;
            completion_length_mean: number;
            /** @description The mean gap in each quarter of a sequence's trained tokens. */
            engine_gap_by_position: (number | null)[] | null;
            /** @description The mean gap of tokens sampled with a probability below 0.01, 0.1, 0.5, and above. */
            engine_gap_by_probability: (number | null)[] | null;
            /** @description Share of tokens whose gap is above 1 nat. */
            engine_gap_far: number | null;
            engine_gap_max: number | null;
            /** @description |trainer - engine| of the log-probabilities of trained tokens before the step, nats. */
            engine_gap_mean: number | null;
            /** @description Half of the tokens have a smaller gap. */
            engine_gap_p50: number | null;
            engine_gap_p90: number | null;
            engine_gap_p99: number | null;
            /** @description Mean negative log-probability of the sampled tokens. */
            entropy: number;
            /** @description The weight that the entropy had in the loss. */
            entropy_coef: number | null;
            episodes: number;
            /** @description Of a mixture: tokens of a layer's busiest expert over the mean of its experts, the mean of all layers. */
            expert_load: number | null;
            grad_norm: number;
            /** @description Answers that left their grammar as the runtime follows it: the rest of each is not trained. */
            grammars_lost: number | null;
            groups: number;
            /** @description Groups whose episodes were all ended with the same rewards, also where a KL term or the length of the answers tells them apart. */
            groups_level: number | null;
            /**
             * @description Groups without a gradient that were set aside on the way to this step.
             * @default 0
             */
            groups_replaced: number;
            /** @description Groups whose rewards were all equal: no gradient in them. */
            groups_skipped: number;
            handover_s: number;
            /** @description Mean k3 KL of the last update's tokens from the policy before the step to the one then. */
            kl_before: number | null;
            /** @description The weight that the KL term had in the loss or in the reward. */
            kl_coef: number | null;
            /** @description Mean k3 KL from the engine's to the trainer's log-probabilities. */
            kl_engine: number;
            learning_rate: number;
            loss: number;
            /**
             * @description Means, over the episodes of the step that have them, of what the agents measured: their metrics, reward/<part>, and rewards_by_agent/<agent>. The first fifty by name.
             * @default {}
             */
            metrics: {
                [key: string]: number;
            };
            reward_mean: number;
            /** @description A tenth of the batch's episodes earned less. */
            reward_p10: number | null;
            reward_p50: number | null;
            reward_p90: number | null;
            reward_std: number;
            rollout_s: number;
            /** @description Of a mixture: of the softmax over a layer's experts in nats, the mean of tokens and layers. */
            router_entropy: number | null;
            /** @description Of a mixture whose experts of sampling are replayed: the share of them that the trainer's own routers would not have chosen. */
            routing_differs: number | null;
            staleness_max: number;
            step: number;
            tokens_computed: number;
            /**
             * @description Trained tokens that engine_correction left out of the loss.
             * @default 0
             */
            tokens_masked: number;
            /**
             * @description Of those, prefixes that were computed again, as the model's layers share none.
             * @default 0
             */
            tokens_repeated: number;
            tokens_trained: number;
            train_s: number;
            /** @description Share of the answers that their length ended: max_tokens. */
            truncated: number | null;
            /**
             * @description Optimizer updates of the step: minibatches times epochs, or fewer by kl_stop.
             * @default 1
             */
            updates: number;
        };
        /**
         * StepView
         * @description ``GET .../steps/{step}``: what one optimizer step measured, and the groups that it was made of.
         */
        StepView: {
            /** @description When it was recorded. */
            at: string | null;
            groups: components["schemas"]["GroupView"][];
            /** @description StepMetrics; null for a step that was refused. */
            metrics: {
                [key: string]: unknown;
            } | null;
            next: number | null;
            /** @description The recorded step before it. */
            previous: number | null;
            /** @description Attempts at this step that changed no weights. */
            refused: components["schemas"]["Event"][];
            step: number;
        };
        /**
         * TaskCount
         * @description How many episodes a task has.
         */
        TaskCount: {
            count: number;
            task: string;
        };
        /**
         * TaskCounts
         * @description ``GET /v1/sessions/{id}/tasks``: attempts by where they are.
         */
        TaskCounts: {
            done: number;
            failed: number;
            /**
             * @description The latest ten.
             * @default []
             */
            failures: components["schemas"]["TaskFailure"][];
            running: number;
            /** @default 0 */
            running_judged: number;
            /** @description Those whose worker's lease has run out among them. */
            waiting: number;
            /**
             * @description Of those that wait: they need a worker with a judge.
             * @default 0
             */
            waiting_judged: number;
            /** @description That hold a lease. */
            workers: number;
        };
        /**
         * TaskEpisode
         * @description ``POST .../tasks/{task_id}/episode``: the episode in which the holder of ``lease`` plays it.
         */
        TaskEpisode: {
            episode_id: string;
            lease: string;
        };
        /**
         * TaskFailure
         * @description An attempt that will not be tried again.
         */
        TaskFailure: {
            error: string;
            name: string;
        };
        /**
         * TaskFinish
         * @description ``POST .../tasks/{task_id}/finish``: it is done, or ``error`` says why not; then it is tried again.
         */
        TaskFinish: {
            error?: string | null;
            /**
             * @description With an error: no other try can mend it.
             * @default false
             */
            final?: boolean;
            lease: string;
        };
        /**
         * TaskGroup
         * @description ``POST .../tasks/{task_id}/group``: the episodes in which the holder of ``lease`` plays a judged task.
         *
         *     ``outputs`` are what its judge made of them, one for each, before the first of them is ended: should this worker be lost then, the next one ends them.
         */
        TaskGroup: {
            /** @description Those of failed tries among them: two for each attempt at most. None of them: it is played anew. */
            episode_ids: string[];
            lease: string;
            /** @description JSON of at most 1 MiB. No episode is added after them. */
            outputs?: components["schemas"]["WorkflowOutput"][] | null;
        };
        /**
         * TaskLeases
         * @description ``lost`` are those of ``held`` that another worker has, or that are over.
         */
        TaskLeases: {
            items: components["schemas"]["LeasedTask"][];
            lost: string[];
            /**
             * @description Where this worker has room left: attempts that wait for one with a judge, or for one without; those at the first 1000 tasks.
             * @default 0
             */
            others_waiting: number;
        };
        /**
         * TaskRow
         * @description One task: ``name`` is the key of its group, ``row`` what the agent is given.
         */
        TaskRow: {
            name: string;
            /** @description JSON of at most 16 KiB. */
            row: unknown;
        };
        /**
         * TaskScore
         * @description What the episodes of one task earned in an evaluation.
         */
        TaskScore: {
            episodes: number;
            reward_mean: number;
            /** @description None of a single one. */
            reward_std?: number | null;
        };
        /**
         * TaskView
         * @description One attempt: ``waiting``, ``running``, ``done`` or ``failed``.
         */
        TaskView: {
            episode_id: string | null;
            /** @default  */
            error: string;
            name: string;
            state: string;
            task_id: string;
            tries: number;
            try_number: number;
        };
        /**
         * TasksLease
         * @description ``POST /v1/sessions/{id}/tasks/lease``: keep the leases in ``held`` and take ``count`` attempts more.
         */
        TasksLease: {
            /** @description Of judged tasks those whose attempts fit; one, be it larger, to a worker that holds none. */
            count: number;
            /** @default [] */
            held?: string[];
            /**
             * @description The worker has a judge: it takes judged tasks, and no others.
             * @default false
             */
            judged?: boolean;
            /**
             * @description From now; later another worker may take the attempt.
             * @default 60
             */
            lease_s?: number;
            /** @description Who asks: shown, and counted. */
            worker: string;
        };
        /**
         * TasksPut
         * @description ``POST /v1/sessions/{id}/tasks``: a name that is still to be played is refused.
         */
        TasksPut: {
            /**
             * @description Episodes of each task; grpo_n of them make a full group.
             * @default 1
             */
            attempts?: number;
            /**
             * @description Served and counted, never trained.
             * @default false
             */
            eval?: boolean;
            /**
             * @description One worker plays all attempts at a task, and its judge rewards them together.
             * @default false
             */
            judged?: boolean;
            rows: components["schemas"]["TaskRow"][];
            /**
             * @description How often an attempt is handed out before it counts as failed.
             * @default 3
             */
            tries?: number;
        };
        /**
         * Thumb
         * @description What a person thought of an episode.
         * @enum {string}
         */
        Thumb: "up" | "down";
        /**
         * TimeUsage
         * @description Seconds of runtimes within a stretch of time, and the same times their GPUs.
         */
        TimeUsage: {
            /** @description At the prices of today; none: the server has none. */
            cost: number | null;
            gpu_s: number;
            runtime_s: number;
        };
        /**
         * TinkerClientView
         * @description A ``ServiceClient`` that the session serves, or served.
         */
        TinkerClientView: {
            /** Format: date-time */
            created_at: string;
            display_name: string;
            /** @description How its client ended it: success, errored, ..., or vanished. */
            finished: string | null;
            sdk_version: string;
            tags: string[];
            tinker_session_id: string;
            user_metadata: {
                [key: string]: unknown;
            };
        };
        /**
         * TinkerModelView
         * @description A model that a client trains.
         */
        TinkerModelView: {
            base_model: string;
            /** @description Calls of forward_backward. */
            calls: number;
            /** Format: date-time */
            created_at: string;
            id: string;
            /** Format: date-time */
            last_request_at: string;
            /** @description That of its last optimizer step. */
            learning_rate: number | null;
            /** @description Rank 0: all weights are trained. */
            lora: components["schemas"]["LoraOptions"];
            /** @description The tinker:// path of the state that it began from. */
            source_path: string | null;
            /** @description Optimizer steps. */
            steps: number;
            user_metadata: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * TinkerRun
         * @description ``GET /v1/sessions/{id}/tinker``: what a session of kind ``tinker`` does for its clients.
         */
        TinkerRun: {
            /** @description Clients of the project share a runtime: the newest 50, in their order. */
            clients: components["schemas"]["TinkerClientView"][];
            /** @description In the order in which they were made. */
            models: components["schemas"]["TinkerModelView"][];
            /** @description The newest of them. */
            newest_samplers: components["schemas"]["TinkerSamplerView"][];
            /** @description Sampling sessions of a base model or of a path. */
            samplers: number;
            tokens: components["schemas"]["TinkerTokenCounts"];
        };
        /**
         * TinkerSamplerView
         * @description A sampling session that a client made.
         */
        TinkerSamplerView: {
            base_model: string;
            /** Format: date-time */
            created_at: string;
            id: string;
            /** @description The tinker:// path of the weights that it samples; None: the base model. */
            model_path: string | null;
        };
        /**
         * TinkerTokenCounts
         * @description What runtimes of the session computed for their clients, by the wire's names of usage.
         */
        TinkerTokenCounts: {
            sampling_prefill: number;
            sampling_prefill_cached: number;
            sampling_sample: number;
            training: number;
        };
        /**
         * TokenRun
         * @description Consecutive tokens of a timeline: sampled in one answer and trained here, or context.
         *
         *     ``pieces`` joined are ``text``. The bytes of a character that several tokens share are with the last of them.
         */
        TokenRun: {
            /** @description Of each of these tokens, once they are trained. */
            advantage: number | null;
            /**
             * @description Which of the call's answers.
             * @default 0
             */
            answer: number;
            /** @description Whose answer these tokens are; null: context, which is not trained. */
            call: string | null;
            /**
             * @description Whether the call was sampled from the model's own distribution: logprobs are the raw ones.
             * @default false
             */
            is_sampled_raw: boolean;
            /**
             * @description Of the distribution that each was sampled from.
             * @default []
             */
            logprobs: number[];
            /**
             * @description The text of each token; like the next two, empty for context.
             * @default []
             */
            pieces: string[];
            /** @default [] */
            policy_versions: number[];
            /** @description The model's own, at temperature 1 over all token ids, where they differ from logprobs; null where they are the same (is_sampled_raw) or were not recorded. */
            raw_logprobs: number[] | null;
            /**
             * @description By index: the bytes, in hex, of each token that is not whole characters.
             * @default {}
             */
            split_bytes: {
                [key: string]: string;
            };
            /** @description The position of the first token in the timeline. */
            start: number;
            /** @description As decoded, special tokens included. */
            text: string;
            token_ids: number[];
            tokens: number;
            /** @description The trainer's own, of the distribution that was sampled from, under the weights before the step that trained these tokens; null of a token that it did not train. Null as a whole where they are not kept: of tokens that no step computed. */
            trainer_logprobs: (number | null)[] | null;
            /** @description The same under the weights after that step; null as a whole too where the session has no logprobs_after_step. */
            trainer_logprobs_after: (number | null)[] | null;
        };
        /**
         * TokenTimeline
         * @description A token sequence that calls of an episode merged into, in runs. A page may hold a part of it.
         */
        TokenTimeline: {
            agent: string | null;
            index: number;
            runs: components["schemas"]["TokenRun"][];
            /** @description Of the whole timeline. */
            tokens: number;
        };
        /**
         * TrajectoryAnswer
         * @description An answer of a call, and where its tokens are.
         */
        TrajectoryAnswer: {
            finish_reason: string | null;
            index: number;
            /** @default [] */
            logprobs: number[];
            message: {
                [key: string]: unknown;
            };
            /** @default [] */
            policy_versions: number[];
            /**
             * @description The position of its first token there: all before it is the call's prompt.
             * @default 0
             */
            start: number;
            /** @description Index of the timeline that has its tokens; null where none was sampled. */
            timeline: number | null;
            /**
             * @description Like the next two: of an answer that no timeline has.
             * @default []
             */
            token_ids: number[];
            /** @default 0 */
            tokens: number;
        };
        /**
         * TrajectoryCall
         * @description One LLM request of an episode. ``messages`` are those that the call it continues has not.
         */
        TrajectoryCall: {
            agent: string | null;
            answers: components["schemas"]["TrajectoryAnswer"][];
            /** @description Unix time in seconds. */
            begun_at: number;
            continues: string | null;
            drift: components["schemas"]["DriftPoint"] | null;
            ended_at: number;
            id: string;
            messages: {
                [key: string]: unknown;
            }[];
            messages_from: number;
            /** @description The request without its messages. */
            options: {
                [key: string]: unknown;
            };
            /**
             * @description Where no timeline holds them: of a cancelled call.
             * @default []
             */
            prompt_token_ids: number[];
            /** @enum {string} */
            status: "completed" | "cancelled";
        };
        /**
         * Usage
         * @description What was used, as measured. Lost heartbeats count as nothing used.
         */
        Usage: {
            /** @description At the prices of today; none: the server has none. */
            cost: number | null;
            /**
             * @description The same as gpu_s, with a runtime without GPU as one device.
             * @default 0
             */
            device_s: number;
            /** @description The same, times the GPUs of the runtime. */
            gpu_s: number;
            /** @description Seconds in which a runtime held the session, from its registration on. */
            runtime_s: number;
            steps: number;
            tokens_trained: number;
        };
        /**
         * UsageBy
         * @description Whose use is told apart.
         * @enum {string}
         */
        UsageBy: "member" | "key" | "model";
        /**
         * UsageDays
         * @description ``GET /v1/usage/days``: a day on which a payer used nothing has no entry.
         */
        UsageDays: {
            by: components["schemas"]["UsageBy"];
            /** @description The earliest day first. */
            days: components["schemas"]["DayUsage"][];
            /** Format: date */
            first: string;
            /** Format: date */
            last: string;
            /** @description The most used first. */
            payers: components["schemas"]["PeriodUsage"][];
            /** @description None: no money is shown. */
            prices: components["schemas"]["DevicePrices"] | null;
        };
        /**
         * UsageList
         * @description ``GET /v1/usage``: one page of sessions, newest first, and the sum over all sessions of the project.
         *
         *     The time of sessions that were deleted stays in the sum; their steps and tokens went with their record.
         */
        UsageList: {
            /** @description Of sessions that a key started; the most used first. For people, and keys with the admin scope, on the first page; none otherwise. */
            by_key: components["schemas"]["PayerUsage"][] | null;
            /** @description Of whoever started them, by hand or by key; the most used first. For the same, on the same page. */
            by_member: components["schemas"]["PayerUsage"][] | null;
            items: components["schemas"]["SessionUsage"][];
            /** @description Of the last 168 hours, deleted sessions too. */
            last_7_days: components["schemas"]["TimeUsage"];
            next_cursor: string | null;
            /** @description None: no money is shown. */
            prices: components["schemas"]["DevicePrices"] | null;
            quotas: components["schemas"]["Quotas"];
            total: components["schemas"]["Usage"];
        };
        /**
         * WaitingSession
         * @description A queued session.
         */
        WaitingSession: {
            /** @description The project's quota of devices keeps it from starting. */
            is_held: boolean;
            name: string;
            /** @description In the queue of all projects; 1 is next. */
            position: number;
            session_id: string;
            /** Format: date-time */
            since: string;
        };
        /**
         * WebhookCreate
         * @description ``POST /v1/webhooks``.
         */
        WebhookCreate: {
            /**
             * @default [
             *       "session.state",
             *       "session.failed",
             *       "session.stuck",
             *       "budget.near",
             *       "training.drift",
             *       "alert.raised",
             *       "checkpoint.committed",
             *       "checkpoint.failed"
             *     ]
             */
            topics?: components["schemas"]["WebhookTopic"][];
            /** @description https, and an address that is public. */
            url: string;
        };
        /**
         * WebhookCreated
         * @description The only response that carries the secret.
         */
        WebhookCreated: {
            /** Format: date-time */
            created_at: string;
            id: string;
            secret: string;
            topics: components["schemas"]["WebhookTopic"][];
            url: string;
        };
        /**
         * WebhookList
         * @description Newest first.
         */
        WebhookList: {
            items: components["schemas"]["WebhookView"][];
        };
        /**
         * WebhookTopic
         * @description What can be subscribed to.
         * @enum {string}
         */
        WebhookTopic: "session.state" | "session.failed" | "session.stuck" | "budget.near" | "training.drift" | "alert.raised" | "checkpoint.committed" | "checkpoint.failed";
        /**
         * WebhookView
         * @description A webhook without its secret.
         */
        WebhookView: {
            /** Format: date-time */
            created_at: string;
            id: string;
            topics: components["schemas"]["WebhookTopic"][];
            url: string;
        };
        /**
         * WorkflowOutput
         * @description What an agent reports of one run. A reward is a finite number; NaN and infinity are refused.
         *
         *     ``reward`` is that of the whole run. An agent that ``rewards_by_agent`` names (by its ``X-Agent`` label), and a call that ``rewards_by_call`` names, are credited with their own instead; a call is named by the ``id`` of its answer (``chatcmpl-...``, ``cmpl-...``, ``resp_...``, ``msg_...``) or by the one in ``GET .../calls`` (``call_...``). ``reward_parts`` says by name what the reward is made of: it trains nothing, and is kept among the metrics.
         *
         *     Example: ``WorkflowOutput(reward=1.0, is_success=True, metrics={"turns": 3}, rewards_by_call={completion.id: 0.5})``
         */
        WorkflowOutput: {
            is_success?: boolean | null;
            /** @default {} */
            metadata?: {
                [key: string]: unknown;
            };
            /** @default {} */
            metrics?: {
                [key: string]: number;
            };
            reward: number;
            /**
             * @description Kept as metrics of the names reward/<part>.
             * @default {}
             */
            reward_parts?: {
                [key: string]: number;
            };
            rewards_by_agent?: {
                [key: string]: number;
            } | null;
            rewards_by_call?: {
                [key: string]: number;
            } | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    account_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AccountView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    sign_in_list: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SignInList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    metric_rule_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricRuleList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    metric_rule_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MetricRuleCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricRuleView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    metric_rule_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                rule_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    metric_rule_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                rule_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MetricRuleUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricRuleView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    alert_list: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                /** @description Only those that are not over. */
                standing?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    alerts_read: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AlertsRead"];
            };
        };
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    audit_list: {
        parameters: {
            query?: {
                before?: number | null;
                limit?: number;
                /** @description Only those with this, in any case, in who did it. */
                actor?: string;
                /** @description Only those with this in their action: delete, session_. */
                action?: string;
                /** @description Only those with this in the ids of what it was done to. */
                target?: string;
                /** @description Only those from this time on. */
                since?: string | null;
                /** @description Only those before this time. */
                until?: string | null;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditPage"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    base_model_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BaseModelList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    capacity_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CapacityView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    invitation_decline: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                member_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    invitation_accept: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                member_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    key_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    key_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyCreated"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    key_revoke: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    member_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    member_invite: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemberInvite"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    member_remove: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                member_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    member_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                member_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MemberUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MemberView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    outside_call: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["OutsideCall"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OutsideAnswer"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    place_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PlaceList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    project_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    project_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    project_rename: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                project_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ProjectUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProjectView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    saved_view_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViewList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    saved_view_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SavedViewCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViewView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    saved_view_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                view_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    saved_view_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                view_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SavedViewUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SavedViewView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    server_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServerView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    serving_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ServingCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_list: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                /** @description Only those in one of these states. */
                state?: components["schemas"]["SessionState"][];
                /** @description Only those of one of these kinds. */
                kind?: components["schemas"]["SessionKind"][];
                base_model?: string | null;
                /** @description Only those with this in their name or id. */
                name?: string | null;
                /** @description Only those with all of these tags. */
                tag?: string[];
                /** @description Only those with all of these options: grpo_n=8, loss=dapo, max_steps=null. One that a session is older than has its default. */
                config?: string[];
                /** @description Only those that are, or are not, pinned. */
                pinned?: boolean | null;
                /** @description Only those created from this time on. */
                since?: string | null;
                /** @description Only those created before this time. */
                until?: string | null;
                sort?: components["schemas"]["SessionSort"];
                /** @description The other way round; those without what is sorted by stay last. */
                reverse?: boolean;
                /** @description With sort=measure: a column of GET .../metrics, such as loss or metrics/<name>. */
                sort_by?: string | null;
                /** @description Only those whose last step is within all of these bounds: metrics/turns>=3, loss<=0.5. */
                measure?: string[];
                /** @description Each with the measures of its last step. */
                measures?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SessionCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_dry_run: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SessionCreate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionPlan"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SessionUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    accounting_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accounting"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_alert_list: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                /** @description Only those that are not over. */
                standing?: boolean;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AlertList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    batch_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                batch: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_list: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CheckpointCreate"];
            };
        };
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CheckpointUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_download: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointDownload"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_provenance: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointProvenance"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_publish: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    checkpoint_unpublish: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                checkpoint_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CheckpointView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_config_update: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ConfigUpdate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConfigChange"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_list: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                /** @description Only those of this task. */
                task?: string | null;
                /** @description Only those with one of these fates. */
                fate?: components["schemas"]["EpisodeFate"][];
                /** @description Only those that are, or are not, for evaluation. */
                eval?: boolean | null;
                reward_min?: number | null;
                reward_max?: number | null;
                /** @description Only those that this policy version sampled. */
                version?: number | null;
                /** @description Only those that this step trained. */
                step?: number | null;
                /** @description Only those with calls of this agent. */
                agent?: string | null;
                /** @description Only those with this, in any case, in the task, the last 500 characters of what was asked, or the first 500 of the last answer. */
                q?: string | null;
                /** @description Only those within all of these bounds on what their agents measured: turns>=3, reward/format<=0.5, rewards_by_agent/solver>=1. */
                metric?: string[];
                /** @description Only those that somebody has given this. */
                thumb?: components["schemas"]["Thumb"] | null;
                /** @description Only those that do, or do not, have a comment. */
                commented?: boolean | null;
                /** @description newest, if absent. */
                sort?: components["schemas"]["EpisodeSort"] | null;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_begin: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EpisodeBegin"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeBegun"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_documents: {
        parameters: {
            query?: {
                /** @description A page's next_cursor; the first page if absent. */
                cursor?: number;
                limit?: number;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeDocuments"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_export: {
        parameters: {
            query?: {
                /** @description Those that follow this annotations_cursor. */
                annotations_after?: number;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeExport"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_facets: {
        parameters: {
            query?: {
                /** @description Only those of this task. */
                task?: string | null;
                /** @description Only those with one of these fates. */
                fate?: components["schemas"]["EpisodeFate"][];
                /** @description Only those that are, or are not, for evaluation. */
                eval?: boolean | null;
                reward_min?: number | null;
                reward_max?: number | null;
                /** @description Only those that this policy version sampled. */
                version?: number | null;
                /** @description Only those that this step trained. */
                step?: number | null;
                /** @description Only those with calls of this agent. */
                agent?: string | null;
                /** @description Only those with this, in any case, in the task, the last 500 characters of what was asked, or the first 500 of the last answer. */
                q?: string | null;
                /** @description Only those within all of these bounds on what their agents measured: turns>=3, reward/format<=0.5, rewards_by_agent/solver>=1. */
                metric?: string[];
                /** @description Only those that somebody has given this. */
                thumb?: components["schemas"]["Thumb"] | null;
                /** @description Only those that do, or do not, have a comment. */
                commented?: boolean | null;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeFacets"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episodes_nearest: {
        parameters: {
            query?: {
                from_version?: number;
                /** @description The session's newest, if absent. */
                to_version?: number | null;
                /** @description By the episodes for evaluation, and not by those that were trained. */
                held_out?: boolean;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NearestPlays"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_erase: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_abandon: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EpisodeAbandon"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_annotate: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EpisodeAnnotate"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AnnotationList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_calls: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeCalls"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_end: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EpisodeEnd"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_heartbeat: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_neighbours: {
        parameters: {
            query?: {
                /** @description Only those of this task. */
                task?: string | null;
                /** @description Only those with one of these fates. */
                fate?: components["schemas"]["EpisodeFate"][];
                /** @description Only those that are, or are not, for evaluation. */
                eval?: boolean | null;
                reward_min?: number | null;
                reward_max?: number | null;
                /** @description Only those that this policy version sampled. */
                version?: number | null;
                /** @description Only those that this step trained. */
                step?: number | null;
                /** @description Only those with calls of this agent. */
                agent?: string | null;
                /** @description Only those with this, in any case, in the task, the last 500 characters of what was asked, or the first 500 of the last answer. */
                q?: string | null;
                /** @description Only those within all of these bounds on what their agents measured: turns>=3, reward/format<=0.5, rewards_by_agent/solver>=1. */
                metric?: string[];
                /** @description Only those that somebody has given this. */
                thumb?: components["schemas"]["Thumb"] | null;
                /** @description Only those that do, or do not, have a comment. */
                commented?: boolean | null;
                sort?: components["schemas"]["EpisodeSort"];
            };
            header?: never;
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeNeighbours"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episode_timelines: {
        parameters: {
            query?: {
                cursor?: number;
                /** @description Tokens; context is not divided. */
                limit?: number;
            };
            header?: never;
            path: {
                session_id: string;
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeTimelines"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    evaluation_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Evaluation"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Event"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    event_list: {
        parameters: {
            query?: {
                /** @description The cursor of the last entry seen. */
                after?: number;
                limit?: number;
                /** @description Only entries of these kinds. */
                kind?: components["schemas"]["EventKind"][];
                /** @description The last entries instead of the first, oldest first all the same. */
                newest?: boolean;
                /** @description Only checkpoints that were committed, refused steps, and restarts. */
                marks?: boolean;
                /** @description How long to wait for an entry when there is none yet. */
                wait_s?: number;
                /** @description With marks: where there are more than limit, of each kind some from its first to its last. Not with newest, kind or wait_s. */
                spread?: boolean;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    group_list: {
        parameters: {
            query?: {
                step?: number | null;
                task?: string | null;
                cursor?: number | null;
                limit?: number;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episodes_heartbeat: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EpisodesHeartbeat"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodesHeartbeatResult"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_logs: {
        parameters: {
            query?: {
                lines?: number;
                /** @description The cursor of an earlier page: the lines after it, first ones first. */
                after?: string;
                /** @description Only lines with this, in any case, among the last 5000 or 1 MiB. */
                q?: string;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionLogs"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    metric_columns: {
        parameters: {
            query?: {
                /** @description Measures, separated by commas; all if empty. What agents measure is metrics/<name>: of these, if empty, the hundred that most steps have. */
                names?: string;
                /** @description What the steps are drawn over. */
                x?: components["schemas"]["MetricAxis"];
                /** @description Only steps recorded after this cursor. */
                after?: number;
                /** @description Steps beyond this number are put together. */
                points?: number;
                /** @description Only steps from this place on the axis on. */
                x_from?: number | null;
                /** @description Only steps up to this place on the axis. */
                x_to?: number | null;
                /** @description Whether a point of several steps has its lowest and highest too. */
                extremes?: boolean;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricColumns"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    episodes_rescore: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EpisodesRescore"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodesRescored"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    resource_columns: {
        parameters: {
            query?: {
                /** @description Samples beyond this number are put together. */
                points?: number;
            };
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ResourceColumns"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_resume: {
        parameters: {
            query?: {
                /** @description Under so many trainer processes, from the state that the suspension saved. */
                trainer_ranks?: number | null;
            };
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    serving_key_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ServingKeyCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ServingEndpoint"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    share_list: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ShareList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    share_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ShareCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ShareCreated"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    share_revoke: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                share_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    step_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
                step: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StepView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_stop: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_suspend: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    task_counts: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskCounts"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    tasks_put: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TasksPut"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskCounts"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    tasks_lease: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TasksLease"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskLeases"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    task_episode_set: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                task_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskEpisode"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    task_finish: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                task_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskFinish"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    task_group_set: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path: {
                session_id: string;
                task_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TaskGroup"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskView"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    tinker_run_get: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TinkerRun"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    model_calls: {
        parameters: {
            query?: {
                /** @description Calls of this kind. */
                kind?: "forward" | "forward_backward" | "optim_step";
                /** @description Calls beyond this number are put together. */
                points?: number;
                /** @description Only calls from this number on. */
                number_from?: number | null;
                /** @description Only calls up to this number. */
                number_to?: number | null;
            };
            header?: never;
            path: {
                session_id: string;
                model_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ModelCalls"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    session_usage: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                session_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SessionSpending"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    shared_get: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SharedRun"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    shared_episodes: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
                /** @description Only those of this task. */
                task?: string | null;
                /** @description Only those with one of these fates. */
                fate?: components["schemas"]["EpisodeFate"][];
                /** @description Only those that this step trained. */
                step?: number | null;
                sort?: components["schemas"]["EpisodeSort"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    shared_timelines: {
        parameters: {
            query?: {
                cursor?: number;
                /** @description Tokens; context is not divided. */
                limit?: number;
            };
            header?: never;
            path: {
                episode_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EpisodeTimelines"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    shared_metrics: {
        parameters: {
            query?: {
                /** @description Measures, separated by commas; all if empty. What agents measure is metrics/<name>: of these, if empty, the hundred that most steps have. */
                names?: string;
                /** @description What the steps are drawn over. */
                x?: components["schemas"]["MetricAxis"];
                /** @description Only steps recorded after this cursor. */
                after?: number;
                /** @description Steps beyond this number are put together. */
                points?: number;
                /** @description Only steps from this place on the axis on. */
                x_from?: number | null;
                /** @description Only steps up to this place on the axis. */
                x_to?: number | null;
                /** @description Whether a point of several steps has its lowest and highest too. */
                extremes?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MetricColumns"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    usage_list: {
        parameters: {
            query?: {
                cursor?: string | null;
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    usage_days: {
        parameters: {
            query?: {
                /** @description By default 29 days before the last. */
                first?: string | null;
                /** @description By default today. */
                last?: string | null;
                by?: components["schemas"]["UsageBy"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UsageDays"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    webhook_list: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    webhook_create: {
        parameters: {
            query?: never;
            header?: {
                /** @description A word of the caller's choice: a repeated request with the same one gets the first one's response. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["WebhookCreate"];
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WebhookCreated"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    webhook_delete: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
    delivery_list: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                webhook_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeliveryList"];
                };
            };
            /** @description Refused or failed */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErrorBody"];
                };
            };
        };
    };
}
