"""The protobuf messages of the Tinker wire (package ``tinker_public``, proto3), from a table of
their fields.

Source: the descriptor that the ``tinker`` client of version 0.38.0 carries. Fields that a newer
client adds are ignored, as protobuf does.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

PACKAGE = "tinker_public"

# Each field reads "[repeated|optional|map|oneof=NAME] TYPE NAME NUMBER"; a map's keys are strings.
_ENUMS = {
    "StopReason": ("STOP_REASON_STOP", "STOP_REASON_LENGTH"),
    "DType": ("DTYPE_UNSPECIFIED", "DTYPE_FLOAT32", "DTYPE_INT64", "DTYPE_INT32", "DTYPE_BFLOAT16"),
}
_MESSAGES = {
    "ForwardBackwardRequest": (
        "string model_id 1", "int32 seq_id 2", "repeated Datum data 3", "string loss_fn 4",
        "map double loss_fn_config 5", "bool forward_only 6", "map LossConfigValue "
                                                              "loss_fn_config_v2 7",
    ),
    "LossConfigValue": ("oneof=value double number 1", "oneof=value string text 2"),
    "Datum": (
        "repeated Chunk model_input 1", "map Tensor loss_fn_inputs 2", "repeated ProvenanceSpan "
                                                                       "model_input_spans 3",
        "repeated ProvenanceSpan loss_fn_input_spans 4",
    ),
    "Chunk": ("oneof=chunk EncodedTextChunk encoded_text 1", "oneof=chunk Opaque image 2", "oneof=chunk Opaque dmel 3"),
    "EncodedTextChunk": ("bytes tokens 1",),
    "Opaque": (),  # what this server refuses, whatever is in it
    "Tensor": (
        "oneof=encoding bytes dense 1", "oneof=encoding SparseCsr sparse_csr 2", "DType dtype 3",
        "repeated int64 shape 4",
    ),
    "SparseCsr": ("bytes values 1", "bytes crow_indices 2", "bytes col_indices 3"),
    "ProvenanceSpan": ("oneof=span Opaque prompt_tokens 1", "oneof=span Opaque sampled_tokens 2"),
    "ForwardBackwardOutput": (
        "string loss_fn_output_type 1", "repeated ArrayRecord loss_fn_outputs 2", "map double metrics 3",
    ),
    "ArrayRecord": ("string type_tag 1", "map BatchedTensor fields 2", "int64 num_datums 3"),
    "BatchedTensor": ("bytes data 1", "bytes offsets 2", "DType dtype 3", "repeated int64 trailing_shape 4"),
    "SampleResponse": (
        "repeated SampledSequence sequences 1", "optional bytes prompt_logprobs 2",
        "optional TopkLogprobs topk_prompt_logprobs 3", "int32 prompt_cache_hit_tokens 4",
        "optional Tensor target_prompt_logprobs 5", "optional PromptAltTokens prompt_alt_tokens 6",
    ),
    "PromptAltTokens": ("Tensor tokens 1", "Tensor logprobs 2"),
    "SampledSequence": (
        "StopReason stop_reason 1", "bytes tokens 2", "optional bytes logprobs 3",
        "optional TopkLogprobs topk_sampled_logprobs 4",
    ),
    "TopkLogprobs": ("bytes token_ids 1", "bytes logprobs 2", "uint32 k 3", "uint32 length 4"),
}  # fmt: skip
_SCALARS = {
    "double": Field.TYPE_DOUBLE,
    "int64": Field.TYPE_INT64,
    "int32": Field.TYPE_INT32,
    "uint32": Field.TYPE_UINT32,
    "bool": Field.TYPE_BOOL,
    "string": Field.TYPE_STRING,
    "bytes": Field.TYPE_BYTES,
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="tinker_public.proto", package=PACKAGE, syntax="proto3"
    )
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            enum.value.add(name=value, number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for text in fields:
            _field_add(message, text)
    return file


def _field_add(message: descriptor_pb2.DescriptorProto, text: str) -> None:
    *rule, kind, name, number = text.split()
    how = rule[0] if rule else ""
    field = message.field.add(name=name, number=int(number), label=Field.LABEL_OPTIONAL)
    if how == "map":
        entry = message.nested_type.add(
            name="".join(part.title() for part in name.split("_")) + "Entry"
        )
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=Field.LABEL_OPTIONAL, type=Field.TYPE_STRING)
        _type_set(entry.field.add(name="value", number=2, label=Field.LABEL_OPTIONAL), kind)
        field.label, field.type = Field.LABEL_REPEATED, Field.TYPE_MESSAGE
        field.type_name = f".{PACKAGE}.{message.name}.{entry.name}"
        return
    _type_set(field, kind)
    if how == "repeated":
        field.label = Field.LABEL_REPEATED
    elif how:
        oneof = how.removeprefix("oneof=") if how.startswith("oneof=") else f"_{name}"
        known = [each.name for each in message.oneof_decl]
        if oneof not in known:
            message.oneof_decl.add(name=oneof)
            known.append(oneof)
        field.oneof_index, field.proto3_optional = known.index(oneof), how == "optional"


def _type_set(field: Field, kind: str) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = Field.TYPE_ENUM if kind in _ENUMS else Field.TYPE_MESSAGE
    field.type_name = f".{PACKAGE}.{kind}"


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))


ForwardBackwardRequest = _class("ForwardBackwardRequest")
ForwardBackwardOutput = _class("ForwardBackwardOutput")
SampleResponse = _class("SampleResponse")
STOP, LENGTH = 0, 1  # StopReason
FLOAT32, INT64 = 1, 2  # DType
