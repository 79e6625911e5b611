#!/bin/sh
# Answers as `codex app-server` does, about hooks of the project it runs in, or else of the user.
config="$HOME/.codex/config.toml"
file="$PWD/.codex/hooks.json"
[ -f "$file" ] || file="$HOME/.codex/hooks.json"
while read -r line; do
    case "$line" in
    *'"initialize"'*) echo '{"id":1,"result":{}}' ;;
    *'"hooks/list"'*)
        hooks=
        number=0
        while [ "$number" -lt @HOOKS@ ]; do
            key="$file:event:$number:0"
            status=untrusted
            grep -A1 -sF "\"$key\"" "$config" | grep -qF "\"sha256:$number\"" && status=trusted
            hooks="$hooks{\"key\":\"$key\",\"command\":\"/x hook --client codex\",\"sourcePath\":\"$file\","
            hooks="$hooks\"enabled\":true,\"currentHash\":\"sha256:$number\",\"trustStatus\":\"$status\"},"
            number=$((number + 1))
        done
        echo '{"method":"remoteControl/status/changed","params":{}}'
        echo "{\"id\":2,\"result\":{\"data\":[{\"cwd\":\"$PWD\",\"hooks\":[${hooks%,}],\"errors\":[]}]}}"
        ;;
    esac
done
