//! Agents run by the real clients of coding agents, with a scripted model: what they do is recorded, what they
//! must not do they cannot, and nothing is done twice when something dies.

mod core;
mod guards;
mod hostile;
mod installed;
mod kills;
mod lab;
mod people;
mod plugin;
mod processes;
mod session;
mod switched_off;
mod typed;
mod work;

/// The same tests for each client.
macro_rules! for_each_client {
    ($($name:ident: $kind:ident),*) => {
        $(mod $name {
            use crate::agents::lab::$kind as KIND;

            #[test]
            fn a_run_goes_to_a_commit() {
                crate::agents::work::a_run_goes_to_a_commit(&KIND);
            }

            #[test]
            fn mend_08_an_agent_starts_another() {
                crate::agents::work::an_agent_starts_another(&KIND);
            }

            #[test]
            fn tasks_of_the_driver_pass() {
                crate::agents::work::tasks_of_the_driver_pass(&KIND);
            }

            #[test]
            fn tools_that_are_switched_off_have_no_effect() {
                crate::agents::switched_off::tools_have_no_effect(&KIND);
            }

            #[test]
            fn hostile_settings_have_no_effect() {
                crate::agents::hostile::settings_have_no_effect(&KIND);
            }

            #[test]
            fn hooks_fail_as_the_page_says() {
                crate::agents::guards::fail_as_the_page_says(&KIND);
            }

            #[test]
            fn a_call_waits_for_a_person_and_runs_once() {
                crate::agents::people::a_call_waits_and_runs_once(&KIND);
            }

            #[test]
            fn a_person_answers_a_question() {
                crate::agents::people::a_question_is_answered(&KIND);
            }

            #[test]
            fn installed_hooks_guard_a_session_of_a_project() {
                crate::agents::installed::guard_a_session(&KIND, "--project");
            }

            #[test]
            fn installed_hooks_guard_a_session_of_the_user() {
                crate::agents::installed::guard_a_session(&KIND, "--user");
            }

            #[test]
            fn installed_hooks_are_found_from_below() {
                crate::agents::installed::are_found_from_below(&KIND);
            }

            #[test]
            fn installed_hooks_are_asked_once() {
                crate::agents::installed::are_asked_once(&KIND);
            }

            #[test]
            fn killed_at_moments_that_nobody_chose() {
                crate::agents::kills::survives(&KIND);
            }
        })*
    };
}

mod pages {
    use crate::agents::lab::{CODEX, GEMINI, OPENCODE};
    use crate::agents::typed::the_page_of_the_client_is_true as is_true;

    #[test]
    fn codex() {
        is_true(&CODEX);
    }

    #[test]
    fn gemini() {
        is_true(&GEMINI);
    }

    #[test]
    fn opencode() {
        is_true(&OPENCODE);
    }
}

for_each_client!(claude: CLAUDE, codex: CODEX, gemini: GEMINI, opencode: OPENCODE);

#[test]
fn a_model_that_gets_nowhere_is_stopped() {
    work::a_model_that_gets_nowhere_is_stopped(&lab::GEMINI);
}
