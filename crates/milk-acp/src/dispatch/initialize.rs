//! `initialize` (R1 to R5). It cannot fail, may come late, and may come again.

use serde_json::{Map, Value, json};

use super::{Reply, Request};
use crate::map::{NOTIFICATIONS, ReplayIds};
use crate::profile;
use crate::rpc_error::RpcError;
use crate::serve::{AcpSettings, PromptResponse};
use crate::view::Shapes;
use crate::view::answer::result;
use crate::wire::receive::Fields;
use crate::wire::{Version, v1, v2};

/// What counts before `initialize`: v2, and nothing known of the client.
pub(super) fn uninitialized(settings: &AcpSettings) -> Shapes {
    shapes(Version::V2, "", settings.prompt_response, settings.replay_ids, settings)
}

pub(super) fn handle(request: &Request<'_>) -> Result<Reply, RpcError> {
    let settings = &request.connection.settings;
    let fields = &request.fields;
    let name = client_name(fields);
    let (prompts, ids) = (prompt_response(fields, settings), replay_ids(fields, settings));
    let negotiated = shapes(version(fields), &name, prompts, ids, settings);
    tracing::info!(client = %crate::visible::line(&name), version = ?negotiated.version, "a client said hello");

    let meta = meta();
    let answer = match negotiated.version {
        Version::V1 => result(&v1::initialized(&settings.version, negotiated.profile.session_load, meta)),
        Version::V2 => result(&v2::initialized(&settings.version, meta)),
    };
    *request.connection.shapes.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = negotiated;
    Ok(Reply::Now(answer?))
}

fn shapes(
    version: Version,
    name: &str,
    prompt_response: PromptResponse,
    replay_ids: ReplayIds,
    settings: &AcpSettings,
) -> Shapes {
    let mut profile = profile::choose(version, name, &settings.clients);
    if let Some(offered) = settings.session_load {
        profile.session_load = offered;
    }
    Shapes { version, profile, prompt_response, replay_ids }
}

/// Exactly `1` is v1, and everything else v2 (R1).
fn version(fields: &Fields<'_>) -> Version {
    match fields.value("protocolVersion") {
        Some(Value::Number(number)) if number.as_u64() == Some(1) => Version::V1,
        _ => Version::V2,
    }
}

/// The client's name from either version's place (R4).
fn client_name(fields: &Fields<'_>) -> String {
    let name = |place: &str| fields.object(place).text("name").ok().flatten().filter(|name| !name.is_empty());
    name("clientInfo").or_else(|| name("info")).unwrap_or_default()
}

fn prompt_response(fields: &Fields<'_>, settings: &AcpSettings) -> PromptResponse {
    match fields.milk_meta("promptResponse").as_ref().and_then(Value::as_str) {
        Some("accepted") => PromptResponse::Accepted,
        Some("held") => PromptResponse::Held,
        _ => settings.prompt_response,
    }
}

fn replay_ids(fields: &Fields<'_>, settings: &AcpSettings) -> ReplayIds {
    match fields.milk_meta("replayIds").as_ref().and_then(Value::as_str) {
        Some("live") => ReplayIds::Live,
        Some("hist") => ReplayIds::Hist,
        _ => settings.replay_ids,
    }
}

/// The notifications of milk's own (R5).
fn meta() -> Map<String, Value> {
    Map::from_iter([("milk".to_owned(), json!({ "notifications": NOTIFICATIONS }))])
}
