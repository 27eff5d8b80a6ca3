//! `flopgap mcp`: a server of the Model Context Protocol on standard input and output. Its tools
//! only read, and each answer has a bound.

mod bounds;
mod explain;
mod open;
mod rows;
mod tools;

use flopgap_cli::Failure;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::{RequestContext, ServerInitializeError};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::Value;

use crate::PROGRAM;

const INSTRUCTIONS: &str = "flopgap answers questions about recordings and models of neural networks on NVIDIA GPUs. Begin \
    with `open`, which says what a file is and which tools answer about it. `gap` says what limits the steps of a trace \
    and what to change first; `explain` says what a word of an answer means. Paths are relative to the directory that the \
    server was started in. Files are never changed.";

/// What a tool says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    answer: String,
    /// The command line that answers the same, and what it warns of.
    notes: String,
}

impl From<String> for Said {
    fn from(answer: String) -> Said {
        Said { answer, ..Said::default() }
    }
}

#[derive(Debug)]
struct Server;

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(PROGRAM, env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let annotations = ToolAnnotations::new().read_only(true).open_world(false);
        let tools = tools::ALL.iter().map(|tool| {
            Tool::new(tool.name, tool.about, (tool.schema)()).with_annotations(annotations.clone())
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name;
        let Some(tool) = tools::ALL.iter().find(|tool| tool.name == name) else {
            return Err(ErrorData::invalid_params(format!("unknown tool `{name}`"), None));
        };
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        // In a thread of its own, so that the server answers pings meanwhile.
        let said = tokio::task::spawn_blocking(move || (tool.call)(arguments)).await;
        let said = said.unwrap_or_else(|_| {
            let message = format!("`{name}` ended in a panic, which is a bug of flopgap");
            Err(Failure::new(message).hint("the message is on standard error of the server"))
        });
        Ok(match said {
            Ok(Said { answer, notes }) => {
                let texts = [answer, notes].into_iter().filter(|text| !text.is_empty());
                CallToolResult::success(texts.map(|text| ContentBlock::text(bounds::text(text))).collect())
            }
            Err(failure) => {
                CallToolResult::error(vec![ContentBlock::text(bounds::text(failure.to_string()))])
            }
        }
        .into())
    }
}

pub(crate) fn run() -> Result<(), Failure> {
    let failed = |what: &str, error: &dyn std::error::Error| Failure::from_error(error).hint(what.to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .map_err(|error| failed("the system may have too many threads", &error))?;
    let ended = runtime.block_on(async {
        match Server.serve((tokio::io::stdin(), tokio::io::stdout())).await {
            Ok(service) => service.waiting().await.map(|_| ()).map_err(|error| Failure::from_error(&error)),
            // A client that leaves before it begins.
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => {
                Err(failed("start it from a client, such as an editor with its MCP settings", &error))
            }
        }
    });
    // A question that is being answered has nobody left to hear it.
    runtime.shutdown_background();
    ended
}
