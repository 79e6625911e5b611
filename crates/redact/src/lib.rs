//! Takes secrets out of text before it is stored or shown: the values of known secrets, plain and
//! encoded, and well-known shapes of tokens and keys.
//!
//! Takes bytes and returns bytes; reads no file, no environment and no clock. What is executed, compared
//! or hashed must not be passed through it: use [`Redactor::find`] there, and refuse.

mod decode;
mod encodings;
mod matcher;
mod redactor;
mod shapes;
mod stream;
mod triggers;

pub use redactor::{Finding, Redactor, SECRET_BYTES_MIN};
pub use stream::Stream;
