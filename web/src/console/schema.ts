// What a form needs to know of JSON Schemas, as the API's description has them: they are made by the server, so that no
// field is declared here a second time.

export interface Schema {
  $ref?: string;
  type?: string;
  enum?: (string | number)[];
  oneOf?: Schema[];
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: Schema | false;
  items?: Schema;
  minimum?: number;
  exclusiveMinimum?: number;
  maximum?: number;
  maxLength?: number;
}

/** Schemas by name: components/schemas of the description. */
export type Schemas = Record<string, Schema>;

export type Fields = Record<string, unknown>;

export const isFields = (value: unknown): value is Fields => typeof value === "object" && value !== null && !Array.isArray(value);

/** The schema itself, where there is a reference to it. */
export const resolve = (schemas: Schemas, schema: Schema): Schema => (schema.$ref ? resolve(schemas, schemas[schema.$ref.replace(/^.*\//, "")] ?? {}) : schema);

/** The field that says which variant a value is: it has one value in each. */
export function variantField(schema: Schema): string {
  return Object.entries(schema.oneOf?.[0]?.properties ?? {}).find(([, s]) => s.enum?.length === 1)?.[0] ?? "";
}

export const nameOf = (variant: Schema, by: string) => String(variant.properties?.[by]?.enum?.[0]);

/** The variant of a value; undefined if it has none. */
export function variantOf(schema: Schema, value: unknown): Schema | undefined {
  const by = variantField(schema);
  return isFields(value) ? schema.oneOf?.find((one) => nameOf(one, by) === value[by]) : undefined;
}

/** Whether a form can show all of a value. It need not be valid. */
export function fits(schemas: Schemas, given: Schema, value: unknown): boolean {
  const schema = resolve(schemas, given);
  if (value === undefined) return true;
  if (schema.oneOf) {
    const variant = variantOf(schema, value);
    return variant ? fits(schemas, variant, value) : isFields(value) && Object.keys(value).length === 0;
  }
  if (schema.enum) return schema.enum.includes(value as string);
  switch (schema.type) {
    case "object":
      if (!isFields(value)) return false;
      if (!schema.properties) return typeof schema.additionalProperties === "object" && Object.values(value).every((v) => fits(schemas, schema.additionalProperties as Schema, v));
      return Object.keys(value).every((name) => Object.hasOwn(schema.properties!, name));
    case "array":
      return Array.isArray(value) && (!resolve(schemas, schema.items ?? {}).enum || value.every((v) => fits(schemas, schema.items!, v)));
    case "integer":
      return typeof value === "number";
  }
  return typeof value === schema.type;
}

/** The fields of an object: those that must be given come first. */
export function fieldsOf(schema: Schema): [name: string, schema: Schema, required: boolean][] {
  const required = new Set(schema.required);
  return Object.entries(schema.properties ?? {}).map(([name, s]): [string, Schema, boolean] => [name, s, required.has(name)]).sort((a, b) => Number(b[2]) - Number(a[2]));
}

/** Turns a value into one of another variant: fields that both have stay. */
export function become(schema: Schema, value: Fields, name: string): void {
  const by = variantField(schema);
  const variant = schema.oneOf?.find((one) => nameOf(one, by) === name);
  for (const field of Object.keys(value)) if (!Object.hasOwn(variant?.properties ?? {}, field)) delete value[field];
  if (variant) value[by] = name;
  else delete value[by];
}

/** A part of a JSON pointer (RFC 6901). */
export const escape = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1");

/** A pointer and those above it, the longest first. */
export function above(pointer: string): string[] {
  const list = [pointer.replace(/^#/, "")];
  while (list[0]) list.unshift(list[0].slice(0, Math.max(0, list[0].lastIndexOf("/"))));
  return list.reverse();
}
