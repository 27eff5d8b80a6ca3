//! What `rten-onnx` leaves out of a model: functions, and parameters that are stored sparsely.

use rten_onnx::onnx::{
    AttributeProto, DataType, GraphProto, NodeProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use rten_onnx::protobuf::{DecodeMessage, Fields, OwnedValues, ProtobufError, ReadValue, ValueReader};

/// The rest of a model.
#[derive(Default)]
pub(super) struct Extras {
    pub(super) functions: Vec<Function>,
    pub(super) sparse: Vec<Sparse>,
}

/// A function of the model, whose nodes take the place of each call.
#[derive(Default)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) domain: String,
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    nodes: Vec<(NodeProto, References)>,
    /// Attributes that a call may leave out.
    defaults: Vec<AttributeProto>,
    pub(super) opset_import: Vec<OperatorSetIdProto>,
    pub(super) value_info: Vec<ValueInfoProto>,
}

/// A parameter of which only the elements that are not zero are stored.
#[derive(Default)]
pub(super) struct Sparse {
    pub(super) name: String,
    pub(super) dims: Vec<i64>,
    pub(super) data_type: Option<DataType>,
}

/// For each attribute of a node: the attribute of the function that it stands for, or those of the
/// nodes of its graph.
#[derive(Default)]
struct References(Vec<(Option<String>, Vec<References>)>);

impl Function {
    /// The nodes of a call: the values of its attributes in the place of their names, and no
    /// operand where the call has none.
    pub(super) fn nodes(&self, call: &NodeProto) -> Vec<NodeProto> {
        let given = |name: &str| {
            let named = |attribute: &&AttributeProto| attribute.name.as_deref() == Some(name);
            call.attribute.iter().find(named).or_else(|| self.defaults.iter().find(named))
        };
        let absent = |name: &str| {
            let place = self.inputs.iter().position(|input| input == name);
            place.is_some_and(|place| call.input.get(place).is_none_or(String::is_empty))
        };
        self.nodes.iter().map(|(node, references)| called(node, references, &given, &absent)).collect()
    }
}

fn called<'a>(
    node: &NodeProto,
    References(references): &References,
    given: &impl Fn(&str) -> Option<&'a AttributeProto>,
    absent: &impl Fn(&str) -> bool,
) -> NodeProto {
    let attribute = |(own, (reference, inner)): (&AttributeProto, &(Option<String>, Vec<References>))| {
        if let Some(reference) = reference {
            // One that neither the call nor the function has is left out.
            return given(reference).map(|value| AttributeProto { name: own.name.clone(), ..value.clone() });
        }
        let Some(graph) = &own.g else { return Some(own.clone()) };
        let nodes = graph.node.iter().zip(inner);
        let node = nodes.map(|(node, references)| called(node, references, given, absent)).collect();
        Some(AttributeProto { g: Some(GraphProto { node, ..graph.clone() }), ..own.clone() })
    };
    let input = node.input.iter().map(|name| if absent(name) { String::new() } else { name.clone() });
    NodeProto {
        input: input.collect(),
        attribute: node.attribute.iter().zip(references).filter_map(attribute).collect(),
        ..node.clone()
    }
}

impl DecodeMessage for Extras {
    type Types = OwnedValues;

    fn decode_fields<R: ReadValue<Types = Self::Types>>(
        mut fields: Fields<'_, R>,
    ) -> Result<Self, ProtobufError> {
        let mut extras = Self::default();
        while let Some(mut field) = fields.next()? {
            match field.number() {
                7 => extras.sparse.extend(SparseParameters::decode_field(&mut field)?.0),
                25 => extras.functions.push(Function::decode_field(&mut field)?),
                _ => field.skip()?,
            }
        }
        Ok(extras)
    }
}

impl DecodeMessage for Function {
    type Types = OwnedValues;

    fn decode_fields<R: ReadValue<Types = Self::Types>>(
        mut fields: Fields<'_, R>,
    ) -> Result<Self, ProtobufError> {
        let mut function = Self::default();
        while let Some(mut field) = fields.next()? {
            match field.number() {
                1 => function.name = field.read_string()?,
                4 => function.inputs.push(field.read_string()?),
                5 => function.outputs.push(field.read_string()?),
                7 => {
                    let bytes = field.read_bytes()?;
                    let node = NodeProto::decode(ValueReader::from_buf(&bytes))?;
                    function.nodes.push((node, References::decode(ValueReader::from_buf(&bytes))?));
                }
                9 => function.opset_import.push(OperatorSetIdProto::decode_field(&mut field)?),
                10 => function.domain = field.read_string()?,
                11 => function.defaults.push(AttributeProto::decode_field(&mut field)?),
                12 => function.value_info.push(ValueInfoProto::decode_field(&mut field)?),
                _ => field.skip()?,
            }
        }
        Ok(function)
    }
}

/// Of a node: its attributes.
impl DecodeMessage for References {
    type Types = OwnedValues;

    fn decode_fields<R: ReadValue<Types = Self::Types>>(
        mut fields: Fields<'_, R>,
    ) -> Result<Self, ProtobufError> {
        let mut attributes = Vec::new();
        while let Some(mut field) = fields.next()? {
            match field.number() {
                5 => {
                    let mut attribute = (None, Vec::new());
                    let mut fields = field.read_message(Some("AttributeProto"))?;
                    while let Some(mut field) = fields.next()? {
                        match field.number() {
                            6 => attribute.1 = GraphReferences::decode_field(&mut field)?.0,
                            21 => attribute.0 = Some(field.read_string()?).filter(|name| !name.is_empty()),
                            _ => field.skip()?,
                        }
                    }
                    attributes.push(attribute);
                }
                _ => field.skip()?,
            }
        }
        Ok(Self(attributes))
    }
}

/// Of a message, the values of one field that may stand in it several times.
struct Repeated<const FIELD: u64, T>(Vec<T>);

impl<const FIELD: u64, T: DecodeMessage<Types = OwnedValues>> DecodeMessage for Repeated<FIELD, T> {
    type Types = OwnedValues;

    fn decode_fields<R: ReadValue<Types = Self::Types>>(
        mut fields: Fields<'_, R>,
    ) -> Result<Self, ProtobufError> {
        let mut values = Vec::new();
        while let Some(mut field) = fields.next()? {
            if field.number() == FIELD {
                values.push(T::decode_field(&mut field)?);
            } else {
                field.skip()?;
            }
        }
        Ok(Self(values))
    }
}

/// Of a graph: its nodes.
type GraphReferences = Repeated<1, References>;
/// Of a graph: its sparse parameters.
type SparseParameters = Repeated<15, Sparse>;

impl DecodeMessage for Sparse {
    type Types = OwnedValues;

    fn decode_fields<R: ReadValue<Types = Self::Types>>(
        mut fields: Fields<'_, R>,
    ) -> Result<Self, ProtobufError> {
        let mut sparse = Self::default();
        while let Some(mut field) = fields.next()? {
            match field.number() {
                1 => {
                    let values = TensorProto::decode_field(&mut field)?;
                    sparse.name = values.name.unwrap_or_default();
                    sparse.data_type = values.data_type;
                }
                3 => {
                    for size in field.read_repeated_int64()? {
                        sparse.dims.push(size?);
                    }
                }
                _ => field.skip()?,
            }
        }
        Ok(sparse)
    }
}
