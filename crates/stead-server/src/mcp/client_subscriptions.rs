//! Notifications that a client gets: that lists have changed, and that files which it follows have changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use stead_core::tools::Failure;
use stead_core::vfs::{FileWaker, FollowedFile};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{convert, resources, uri};
use crate::in_place::in_place;
use crate::live_stead::{LiveStead, SteadView};

/// How often followed files are checked at most; also how often those are checked whose Store reports no changes.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How many resources one client may follow.
const MAX_SUBSCRIPTIONS: usize = 256;

/// The resources that one client follows.
#[derive(Debug)]
pub(super) struct ClientSubscriptions {
    live_stead: Arc<LiveStead>,
    /// The followed files, by the URI that the client uses.
    followed: Mutex<HashMap<String, FollowedFile>>,
    /// Notified when a followed file may have changed.
    file_changes: Arc<Notify>,
    notifies_lists: AtomicBool,
    notifies_files: AtomicBool,
}

impl ClientSubscriptions {
    pub(super) fn new(live_stead: Arc<LiveStead>) -> Self {
        ClientSubscriptions {
            live_stead,
            followed: Mutex::default(),
            file_changes: Arc::default(),
            notifies_lists: AtomicBool::new(false),
            notifies_files: AtomicBool::new(false),
        }
    }

    /// Starts to follow a resource. Fails if it can't be read, or if too many are followed already.
    pub(super) fn subscribe(&self, view: &SteadView, uri: String) -> Result<(), ErrorData> {
        if uri == uri::MAP {
            // `notify_list_changes` reports the map already.
            return Ok(());
        }
        check_may_add(&self.followed.lock(), &uri)?;
        // Without the lock, because it may take long.
        let file = follow(view, &uri, &self.file_changes)
            .map_err(|failure| convert::resource_error(&failure, &uri))?;
        let mut followed = self.followed.lock();
        // Other calls of this client may have taken the last places meanwhile.
        check_may_add(&followed, &uri)?;
        followed.insert(uri, file);
        Ok(())
    }

    pub(super) fn unsubscribe(&self, uri: &str) {
        self.followed.lock().remove(uri);
    }

    /// Starts a task that notifies the client when lists change, until the connection closes. A second call does
    /// nothing.
    pub(super) fn notify_list_changes(&self, peer: &Peer<RoleServer>) {
        if self.notifies_lists.swap(true, Ordering::Relaxed) {
            return;
        }
        let (peer, mut changes) = (peer.clone(), self.live_stead.subscribe_list_changes());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
                    () = tokio::time::sleep(POLL_INTERVAL) => {
                        if peer.is_transport_closed() { return } else { continue }
                    }
                }
                let notification = async {
                    peer.notify_tool_list_changed().await?;
                    peer.notify_resource_list_changed().await?;
                    peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri::MAP)).await
                };
                if notification.await.is_err() {
                    return;
                }
            }
        });
    }

    /// Starts a task that notifies the client when followed files change, until the connection closes. A second call
    /// does nothing.
    pub(super) fn notify_file_changes(self: &Arc<Self>, peer: &Peer<RoleServer>) {
        if self.notifies_files.swap(true, Ordering::Relaxed) {
            return;
        }
        let (subscriptions, peer, mut changes) =
            (Arc::clone(self), peer.clone(), self.live_stead.subscribe_list_changes());
        tokio::spawn(async move {
            let mut not_before = Instant::now();
            while !peer.is_transport_closed() {
                let must_poll = subscriptions.followed.lock().values().any(FollowedFile::needs_polling);
                let lists_changed = tokio::select! {
                    () = wait_for_file_change(&subscriptions.file_changes, not_before, must_poll) => false,
                    changed = changes.changed() => if changed.is_err() { return } else { true },
                    () = tokio::time::sleep(POLL_INTERVAL) => continue,
                };
                let check = || {
                    if lists_changed {
                        subscriptions.recheck_access();
                    }
                    changed_uris(&mut subscriptions.followed.lock())
                };
                let changed = in_place(check).await;
                not_before = Instant::now() + POLL_INTERVAL;
                for uri in changed {
                    if peer.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await.is_err()
                    {
                        return;
                    }
                }
            }
        });
    }

    /// After a change of the Workspaces: stops following what may not be read any more.
    fn recheck_access(&self) {
        let mut followed = self.followed.lock();
        let uris: Vec<_> = followed.keys().cloned().collect();
        *followed = follow_all(&self.live_stead.current(), &uris, &self.file_changes);
    }

    /// The part of a requested filter that the server grants: resources that may be read, up to [`MAX_SUBSCRIPTIONS`].
    pub(super) fn accepted_filter(&self, requested: &SubscriptionFilter) -> SubscriptionFilter {
        let view = self.live_stead.current();
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|uri| uri == uri::MAP || may_follow(&view, uri));
            uris.truncate(MAX_SUBSCRIPTIONS);
        }
        accepted
    }

    /// Sends a client the notifications that it asked for, until it cancels the subscription.
    pub(super) async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let _listener = self.live_stead.acquire_listener().ok_or_else(|| {
            ErrorData::invalid_request("too many of your clients already listen; close some of them", None)
        })?;
        let (sink, accepted) = (context.sink(), context.accepted());
        let wants = |flag: Option<bool>| flag == Some(true);
        let uris = accepted.resource_subscriptions.as_deref().unwrap_or_default();
        let mut changes = self.live_stead.subscribe_list_changes();
        let file_changes = Arc::<Notify>::default();
        let follow = || follow_all(&self.live_stead.current(), uris, &file_changes);
        let mut followed = in_place(follow).await;
        let mut not_before = Instant::now();
        loop {
            let must_poll = followed.values().any(FollowedFile::needs_polling);
            let lists_changed = tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    true
                }
                () = wait_for_file_change(&file_changes, not_before, must_poll) => false,
            };
            not_before = Instant::now() + POLL_INTERVAL;
            let sent = async {
                if lists_changed {
                    if wants(accepted.tools_list_changed) {
                        sink.notify_tool_list_changed().await?;
                    }
                    if wants(accepted.resources_list_changed) {
                        sink.notify_resource_list_changed().await?;
                    }
                    if uris.iter().any(|uri| uri == uri::MAP) {
                        sink.notify_resource_updated(uri::MAP).await?;
                    }
                }
                for uri in in_place(|| changed_uris(&mut followed)).await {
                    sink.notify_resource_updated(uri).await?;
                }
                Ok::<_, rmcp::service::SubscriptionSendError>(())
            };
            if sent.await.is_err() {
                return Ok(());
            }
            if lists_changed {
                // The Workspaces have changed, so what may be followed is decided again.
                followed = in_place(follow).await;
            }
        }
    }
}

/// Fails if another resource would be one too many.
fn check_may_add<T>(followed: &HashMap<String, T>, uri: &str) -> Result<(), ErrorData> {
    if followed.len() < MAX_SUBSCRIPTIONS || followed.contains_key(uri) {
        return Ok(());
    }
    let message =
        format!("you can subscribe to at most {MAX_SUBSCRIPTIONS} resources; unsubscribe from some first");
    Err(ErrorData::invalid_params(message, None))
}

/// Waits until a followed file may have changed, but not shorter than until `not_before`.
async fn wait_for_file_change(changes: &Notify, not_before: Instant, must_poll: bool) {
    tokio::time::sleep_until(not_before).await;
    if !must_poll {
        changes.notified().await;
    }
}

fn follow(view: &SteadView, uri: &str, changes: &Arc<Notify>) -> Result<FollowedFile, Failure> {
    let path = resources::path_of(uri)?;
    let changes = Arc::clone(changes);
    let waker: FileWaker = Arc::new(move || changes.notify_one());
    Ok(view.toolbox.vfs().operation("resources/subscribe").follow(path.as_str(), waker)?)
}

/// Whether the Workspace of a resource may be read. Doesn't look for the file.
fn may_follow(view: &SteadView, uri: &str) -> bool {
    let path = uri::path_of(uri).and_then(|path| stead_core::VfsPath::parse(&path).ok());
    let route = path.as_ref().and_then(|path| view.toolbox.vfs().router().route(path));
    route.is_some_and(|route| route.workspace.scope().allows(stead_core::Access::Read))
}

fn follow_all(view: &SteadView, uris: &[String], changes: &Arc<Notify>) -> HashMap<String, FollowedFile> {
    let follow = |uri: &String| Some((uri.clone(), follow(view, uri, changes).ok()?));
    uris.iter().filter_map(follow).collect()
}

/// The followed resources that have changed since the last check.
fn changed_uris(followed: &mut HashMap<String, FollowedFile>) -> Vec<String> {
    let changed_uri =
        |(uri, followed): (&String, &mut FollowedFile)| followed.has_changed().then(|| uri.clone());
    followed.iter_mut().filter_map(changed_uri).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_at_its_limit_can_subscribe_again_to_the_same_resource() {
        let mut followed: HashMap<String, ()> =
            (1..MAX_SUBSCRIPTIONS).map(|number| (format!("stead:///{number}"), ())).collect();
        assert!(check_may_add(&followed, "stead:///last").is_ok());
        followed.insert("stead:///last".to_owned(), ());
        assert!(check_may_add(&followed, "stead:///last").is_ok());
        assert!(check_may_add(&followed, "stead:///another").is_err());
    }
}
