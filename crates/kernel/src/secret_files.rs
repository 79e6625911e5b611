//! The files that usually hold secrets: those that the shipped policy keeps from agents, and that cells hide if git does not track
//! them.

/// Path globs of files that usually hold secrets, in lower case.
pub const SECRET_FILES: [&str; 17] = [
    "**/.env*",
    "**/*.{pem,p12,pfx,key,jks,keystore,kdbx,ppk}",
    // No `id_rsa*` here: a line with `*.rs` could mean `id_rsa.rs` then, and would always be asked.
    "**/id_{rsa,dsa,ecdsa,ed25519}{,.pub,.pem,.key,.bak,.old,~}",
    "**/.ssh/**",
    "**/.aws/**",
    "**/.gnupg/**",
    "**/.kube/**",
    "**/.netrc",
    "**/.npmrc",
    "**/.pypirc",
    "**/.pgpass",
    "**/.git-credentials",
    "**/.htpasswd",
    "**/credentials{,.json,.toml,.yaml,.yml,.ini,.csv}",
    "**/secrets.{json,toml,yaml,yml}",
    "**/.docker/config.json",
    "**/{terraform.tfvars,*.auto.tfvars,*.tfstate,*.tfstate.backup}",
];

/// Path globs of files among them that are examples without secrets.
pub const SECRET_FILE_EXAMPLES: [&str; 1] =
    ["**/.env*.{example,sample,template,dist,defaults,schema}"];
