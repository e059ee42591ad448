"""Tool schemas: what a tool declares, compiled into a judge of its arguments.

`compile_schema` spells, surveys and compiles a declaration or refuses it; `ToolSchema.check` judges arguments. Nothing
here reads a file or a network, whatever a schema asks for.
"""

from turngate.core.toolset import SchemaDialect
from turngate.schema.compile import SchemaCache, ToolSchema, Vocabulary, compile_schema, schema_digest

__all__ = ["SchemaCache", "SchemaDialect", "ToolSchema", "Vocabulary", "compile_schema", "schema_digest"]
