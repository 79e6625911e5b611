//! Writes canonical JSON, in one pass and into one buffer.
//!
//! A general writer looks at every letter of every key. The keys of our own structures are Rust names,
//! which need no escapes, and most texts need none either, so these are copied whole.

use serde::ser::{
    self, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant,
};
use serde::{Serialize, Serializer};

use super::text::{is_escaped, write_number, write_string};

/// A value that cannot be written.
#[derive(Debug)]
pub(super) struct WriteError(String);

impl std::fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for WriteError {}

impl ser::Error for WriteError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// Writes values one after the other into memory, in the order in which it is given them.
pub(super) struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(super) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Opens an object under the name of an enum's variant.
    fn variant(&mut self, name: &'static str) {
        self.out.push(b'{');
        self.name(name);
    }

    /// Writes the name of a field or a variant, which needs no escapes, and a colon.
    fn name(&mut self, name: &'static str) {
        debug_assert!(!name.bytes().any(is_escaped), "a name in code that needs escapes: {name}");
        self.out.reserve(name.len() + 3);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    const fn many(&mut self, end: &'static [u8]) -> Many<'_, 'a> {
        Many { writer: self, begun: false, end }
    }
}

/// An array or an object that is being written.
pub(super) struct Many<'w, 'a> {
    writer: &'w mut Writer<'a>,
    begun: bool,
    end: &'static [u8],
}

impl Many<'_, '_> {
    fn next(&mut self) {
        if self.begun {
            self.writer.out.push(b',');
        }
        self.begun = true;
    }

    fn item<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), WriteError> {
        self.next();
        value.serialize(&mut *self.writer)
    }

    fn member<T: ?Sized + Serialize>(&mut self, name: &'static str, value: &T) -> Written {
        self.next();
        self.writer.name(name);
        value.serialize(&mut *self.writer)
    }

    fn close(self) {
        self.writer.out.extend_from_slice(self.end);
    }
}

type Written = Result<(), WriteError>;

impl<'w, 'a> Serializer for &'w mut Writer<'a> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Many<'w, 'a>;
    type SerializeTuple = Many<'w, 'a>;
    type SerializeTupleStruct = Many<'w, 'a>;
    type SerializeTupleVariant = Many<'w, 'a>;
    type SerializeMap = Many<'w, 'a>;
    type SerializeStruct = Many<'w, 'a>;
    type SerializeStructVariant = Many<'w, 'a>;

    fn serialize_bool(self, value: bool) -> Written {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Written {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Written {
        if value < 0 {
            self.out.push(b'-');
        }
        write_number(value.unsigned_abs(), self.out);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Written {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Written {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Written {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Written {
        write_number(value, self.out);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Written {
        self.serialize_f64(value.into())
    }

    /// As ECMAScript writes it.
    fn serialize_f64(self, value: f64) -> Written {
        let text = serde_json_canonicalizer::to_vec(&value).map_err(ser::Error::custom)?;
        self.out.extend_from_slice(&text);
        Ok(())
    }

    fn serialize_char(self, value: char) -> Written {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Written {
        write_string(value, self.out);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Written {
        self.collect_seq(value)
    }

    fn serialize_none(self) -> Written {
        self.serialize_unit()
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Written {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Written {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.out.push(b'}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Many<'w, 'a>, WriteError> {
        self.out.push(b'[');
        Ok(self.many(b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Many<'w, 'a>, WriteError> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Many<'w, 'a>, WriteError> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Many<'w, 'a>, WriteError> {
        self.variant(variant);
        self.out.push(b'[');
        Ok(self.many(b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Many<'w, 'a>, WriteError> {
        self.out.push(b'{');
        Ok(self.many(b"}"))
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Many<'w, 'a>, WriteError> {
        self.serialize_map(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Many<'w, 'a>, WriteError> {
        self.variant(variant);
        self.out.push(b'{');
        Ok(self.many(b"}}"))
    }
}

/// The traits of arrays, which differ in name only.
macro_rules! items {
    ($($trait:ident::$method:ident),*) => {$(
        impl $trait for Many<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            fn $method<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
                self.item(value)
            }

            fn end(self) -> Written {
                self.close();
                Ok(())
            }
        }
    )*};
}

items! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
}

/// The traits of structures, which differ in name only.
macro_rules! members {
    ($($trait:ident),*) => {$(
        impl $trait for Many<'_, '_> {
            type Ok = ();
            type Error = WriteError;

            fn serialize_field<T: ?Sized + Serialize>(
                &mut self,
                key: &'static str,
                value: &T,
            ) -> Written {
                self.member(key, value)
            }

            fn end(self) -> Written {
                self.close();
                Ok(())
            }
        }
    )*};
}

members! { SerializeStruct, SerializeStructVariant }

impl SerializeMap for Many<'_, '_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Written {
        self.next();
        let start = self.writer.out.len();
        key.serialize(&mut *self.writer)?;
        // Whatever else a key may be, in JSON it must be a string.
        if self.writer.out.get(start) == Some(&b'"') {
            Ok(())
        } else {
            Err(WriteError("a key must be a string".to_owned()))
        }
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
        self.writer.out.push(b':');
        value.serialize(&mut *self.writer)
    }

    fn end(self) -> Written {
        self.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
