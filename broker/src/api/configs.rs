//! DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44). KIP-133, KIP-226, KIP-339.

use std::rc::Rc;

use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

use crate::core::Core;

/// DescribeConfigs v1 to v4.
#[must_use]
pub fn describe(core: &Rc<Core>, request: &DescribeConfigsRequest) -> DescribeConfigsResponse {
    let image = core.image();
    crate::config::answer::answer(request, core.config(), image.configs(), |topic| {
        image.topics().by_name(topic).is_some()
    })
}

async fn applied(core: &Core) {
    core.shared.wait_applied(core.shared.controller.image().offset().0).await;
}

/// AlterConfigs v0 to v2.
pub async fn alter(core: &Rc<Core>, request: AlterConfigsRequest) -> AlterConfigsResponse {
    let response = core.shared.controller.alter_configs(request).await;
    applied(core).await;
    response
}

/// IncrementalAlterConfigs v0 to v1.
pub async fn incremental_alter(
    core: &Rc<Core>,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let response = core.shared.controller.incremental_alter_configs(request).await;
    applied(core).await;
    response
}
