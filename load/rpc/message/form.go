package message

import (
	"google.golang.org/protobuf/reflect/protoreflect"
)

// formOf says, for people, how a value of a field is written in JSON.
func formOf(field protoreflect.FieldDescriptor) string {
	switch field.Kind() {
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.EnumKind:
		return "the name of a value of " + string(field.Enum().FullName())
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return "a whole number from -2147483648 to 2147483647"
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return "a whole number from 0 to 4294967295"
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return "a whole number from -9223372036854775808 to 9223372036854775807"
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return "a whole number from 0 to 18446744073709551615"
	case protoreflect.FloatKind:
		return `a number up to 3.4e38, "NaN", "Infinity" or "-Infinity"`
	case protoreflect.DoubleKind:
		return `a number up to 1.7e308, "NaN", "Infinity" or "-Infinity"`
	case protoreflect.StringKind:
		return "a string"
	case protoreflect.BytesKind:
		return "a string in base64"
	}
	if form := wellKnownForm(field.Message()); form != "" {
		return form
	}
	return "a " + string(field.Message().FullName())
}

// wellKnownForm says how a well-known message is written in JSON that is not written as its
// fields are; else it returns "".
func wellKnownForm(d protoreflect.MessageDescriptor) string {
	if d.FullName().Parent() != "google.protobuf" {
		return ""
	}
	switch d.Name() {
	case "Any":
		return `an object with its "@type", such as {"@type": "type.googleapis.com/pkg.Message", …}`
	case "Timestamp":
		return `a time such as "2026-01-31T23:59:59.5Z"`
	case "Duration":
		return `a duration in seconds such as "1.5s"`
	case "FieldMask":
		return `the names of fields, such as "user.name,email"`
	case "Struct":
		return "an object: {…}"
	case "ListValue":
		return "an array: […]"
	case "Value":
		return "any JSON but NaN and infinities"
	}
	if value := wrapped(d); value != nil {
		return formOf(value)
	}
	return ""
}

// wrapped returns the one field of a well-known message that is written as the field's
// value, or nil.
func wrapped(d protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if d.FullName().Parent() != "google.protobuf" {
		return nil
	}
	switch d.Name() {
	case "BoolValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue", "StringValue", "BytesValue":
		return d.Fields().ByName("value")
	}
	return nil
}
