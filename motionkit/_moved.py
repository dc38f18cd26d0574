"""Where modules were before the package was laid out by system; their old paths can be imported until 0.3.

`TABLE` has a line for each module: its path, and the paths that it, or parts of it, had before. Importing an old path
gives the module of today, with a `DeprecationWarning` that names it.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Sequence
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_PACKAGE = "motionkit."

SEVERAL = {
    "cli.commands._eval_models": (
        "predictor.evaluate",
        "success.evaluate",
        "regions.evaluate",
    ),
    "cli.commands._eval_settings": (
        "text_to_motion.evaluation.settings",
        "predictor.evaluation.settings",
        "success.evaluate_settings",
        "regions.evaluation.settings",
    ),
    "report._source": (
        "runs.source",
        "report._facts",
    ),
    "datasets.composite.api": (
        "text_to_motion.data.compose",
        "text_to_motion.data.joined",
    ),
    "datasets.motions": (
        "predictor.data",
        "predictor.clips",
    ),
    "encoders.success": (
        "success.classifier_network",
        "success.classifier",
    ),
    "encoders.t2m": (
        "text_to_motion.evaluator.model",
        "text_to_motion.evaluator.files",
        "text_to_motion.crops",
    ),
    "encoders.tmr": (
        "text_to_motion.tmr.model",
        "text_to_motion.crops",
        "text_to_motion.tmr.files",
    ),
    "environments": ("success.environments.open",),
    "evaluation": (
        "text_to_motion.grpo.measurements",
        "text_to_motion.evaluation.heldout",
        "text_to_motion.evaluation.judge",
        "text_to_motion.evaluation.quality",
        "text_to_motion.evaluation.real_motions",
        "text_to_motion.evaluation.retrieval",
        "text_to_motion.evaluation.export",
        "contracts.open_model",
        "contracts.evaluation",
        "contracts.generating",
        "predictor.evaluation.guide",
        "metrics.paired",
    ),
    "evaluation.mpl": (
        "predictor.continuation",
        "predictor.evaluation.kept",
        "predictor.evaluation.measure",
        "predictor.evaluation.data",
        "predictor.evaluation.guide",
        "predictor.evaluation.run",
    ),
    "evaluation.mpl.long": (
        "predictor.evaluation.long.measure",
        "predictor.evaluation.long.result",
        "predictor.evaluation.baselines",
    ),
    "evaluation.regions": (
        "regions.evaluation.split",
        "regions.evaluation.gallery",
        "regions.evaluation.result",
        "regions.evaluation.known",
        "regions.evaluation.measure",
        "regions.evaluate",
    ),
    "evaluation.reward": (
        "success.evaluation.report",
        "success.evaluation.checks",
        "success.evaluation.data",
    ),
    "evaluation.sensitivity": (
        "text_to_motion.evaluation.sensitivity.words",
        "text_to_motion.evaluation.sensitivity.audit",
        "text_to_motion.evaluation.sensitivity.bench",
        "text_to_motion.evaluation.sensitivity.quick",
    ),
    "evaluation.text_to_motion": (
        "text_to_motion.evaluation.protocol.figures",
        "text_to_motion.evaluation.protocol.tables",
        "text_to_motion.evaluation.protocol.measure",
        "text_to_motion.evaluation.protocol.compare",
        "text_to_motion.evaluation.protocol.run",
    ),
    "policies.mdm.api": (
        "text_to_motion.mdm.policy",
        "text_to_motion.mdm.network",
        "text_to_motion.mdm.open",
        "text_to_motion.mdm.files",
    ),
    "policies.mpl.api": (
        "predictor.policy",
        "predictor.features",
        "predictor.heads",
        "predictor.network",
    ),
    "policies.sa2va.api": (
        "regions.sa2va.parts",
        "regions.sa2va.policy",
        "regions.sa2va.open",
    ),
    "rigs._kit": (
        "rigs.bodymap",
        "rigs.rest",
        "rigs.roles",
    ),
    "rewards.mix": (
        "text_to_motion.rewards.mix",
        "text_to_motion.rewards.ask",
    ),
    "rl._credit": (
        "rl._objective",
        "rl._advantages",
    ),
    "starter._actions": (
        "starter._gestures",
        "starter._jumps",
    ),
    "tracking._writers": (
        "tracking._trackers",
        "tracking._jsonl",
    ),
    "success.episodes.export": (
        "success.episodes.trajectories",
        "success.episodes.open",
    ),
    "trainers.ppo.api": (
        "success.ppo.backend",
        "success.ppo.scored_env",
    ),
    "trainers.reward_train.learning": (
        "success.train_settings",
        "success.train_data",
        "success.train",
    ),
    "trainers.train_mpl.api": (
        "predictor.advice",
        "predictor.schedule",
    ),
}
"""Modules whose names are in several modules today."""

TABLE = """
cli._app: cli._lazy
cli._stop: cli._together
cli._trainer: cli._end
cli._translate: cli._guide_answer cli._translate_rules
cli.commands.tune: cli.commands._tune_metrics
cli.commands.tune_bayes: cli.commands._tune_run cli.commands._tune_settings
cli.output: cli._browser
cli.settings: cli._flags
cli.table: cli._table
clips.bodies: clips._bodies
clips.check: clips.checks._check clips.checks.check
clips.convert.check_clip: clips.convert._check_clip
clips.convert.feature_target: clips.convert._feature_target motion.corpus._folder motion.corpus.folder
clips.convert.options: clips.convert._options
clips.convert.report: clips.convert._messages clips.convert._report clips.convert.notes
clips.convert.resumable: clips.convert._journal clips.convert._resumable_folder
clips.convert.run: clips.convert._by_skeleton clips.convert._to_file clips.convert._to_folder
clips.convert.targets: clips.convert._targets clips.convert._write_file
clips.faults: clips.checks._body clips.checks._finding clips.checks._floor clips.checks._jumps clips.checks._rest
    clips.checks.faults clips.checks.finding
clips.find: clips._dataset_folder clips._find clips._ids
clips.profile.document: clips.profile._document clips.profile._notes clips.profile._suggestion clips.profile._tables
    clips.profile.tables
clips.profile.measure: clips.profile._measure clips.profile._moments clips.profile._movement clips.profile._skeletons
    clips.profile.sums
clips.profile.page: clips.profile._page clips.profile._page_bins clips.profile._page_charts clips.profile._page_sections
clips.profile.run: clips.profile._run
clips.profile.settings_file: clips.profile._edit_json clips.profile._edit_toml clips.profile._merge
    clips.profile._settings_file
clips.profile.statistics: clips.profile._captions clips.profile._outliers clips.profile._profile
clips.sources: clips._sources
clips.walk: clips._pool clips._walk
config._choose: config._concrete config._one
config._given: config._foreign config._interpolate
config._problems: config._places
config._shared: config._search
config._slots: config._group
config._tree: config._words
config.sources: config._recorded config._sources
contracts.console: contracts.command
contracts.dataset: datasets.base datasets.content datasets.export datasets.pictures
contracts.device: policies.device
contracts.environment: environments.base
contracts.evaluation: cli.commands._test_split evaluation._data evaluation._folder
contracts.generating: policies.generating policies.sampling
contracts.open_model: evaluation._opened evaluation._trained_on
contracts.own_data: cli.commands._own_data
contracts.policy: policies.base
contracts.reward: rewards._records rewards.base
documents: documents._csv documents._json documents._model documents._shape documents._text documents._toml
    documents._yaml
errors: errors._near
formats.amass: formats.amass._read formats.amass._recording rigs._smpl_model rigs.smpl_model
formats.arrays: formats.arrays._features formats.arrays._joints formats.arrays._space
formats.bvh.euler: formats.bvh._euler
formats.bvh.read: formats.bvh._frames formats.bvh._hierarchy formats.bvh._read
formats.bvh.write: formats.bvh._write
formats.glb.write: formats.glb._mesh formats.glb._write
formats.mpl.bones: formats.mpl._bones formats.mpl._find_bones
formats.mpl.build: formats.mpl._build formats.mpl._root
formats.mpl.conventions: formats.mpl._conventions
formats.mpl.fields: formats.mpl._fields
formats.mpl.npz: formats.mpl._read_npz formats.mpl._trajectory formats.mpl._write
formats.mpl.read_json: formats.mpl._read_json
formats.native: formats.native._read formats.native._write
formats.table: formats._table
geometry: geometry._kinematics geometry._rotations geometry._yaw
kernels._backend: kernels._driver kernels._loading
kernels._compile: kernels._cubins kernels._nvrtc kernels._specs
kernels._launch: kernels._first_order
kernels.definitions: kernels._body kernels._chunks kernels._physics kernels.recovery
kernels.selftest: kernels._compare kernels._device_checks
metrics._classification: metrics._reliability
metrics._embeddings: metrics._distribution metrics._kinetic
metrics._movement: metrics._floor metrics._limbs
metrics._prediction: metrics._contacts metrics._rotation metrics._spectrum
metrics._regions: metrics._cider
metrics._retrieval: metrics._matching
metrics.paired: evaluation._paired
motion.changes.place_and_time: motion.changes._features motion.changes._place motion.changes._time
motion.changes.poses: motion.changes._poses motion.changes._stillness
motion.changes.registry: motion.changes._applies motion.changes._registry
motion.clip: motion._clip motion._joint_map
motion.corpus.captions: motion.corpus._caption_table motion.corpus._captions
motion.corpus.ids: motion.corpus._ids
motion.corpus.real_actions: motion.corpus._real_actions
motion.corpus.tagger: motion.corpus._tagger
motion.features.extract: motion.features._extract motion.features._retarget motion.features._rotations
    motion.features._rows
motion.features.layout: motion.features._layout motion.features._mirror motion.features._stats
motion.features.recover: motion._batch motion.features._recover
motion.motion: motion._motion motion.frames
motion.prediction: motion.prediction._motion motion.prediction._path motion.prediction._state
motion.skeleton: motion._skeleton
nn._transformer: nn._keys nn._positions
nn._unrolled: nn._film nn._window_attention
nn.lora: nn._lora policies.groups
page.charts: page._charts page._rose page._rows page._svg
page.curves: page._curves page._parallel
page.histogram: page._histogram
page.html: page._copy page._elements page._page page._sorter report._stored
page.wording: page._wording
player._figure: player._camera
player._page: player._payload
player.video._film: player.video._encode
plugins._component: plugins._metrics
plugins._discovery: plugins._kinds
plugins._lookup: plugins._fit
plugins.check: plugins._check plugins._diagnose plugins.diagnose
plugins.scaffold: plugins._scaffold plugins._templates._package
predictor.adaptive: trainers.train_mpl._adaptive
predictor.advice: trainers.train_mpl._advice
predictor.batches: trainers.train_mpl._augment trainers.train_mpl._batches
predictor.bvh_file: policies.mpl.bvh_file
predictor.checklist: trainers.train_mpl._checklist
predictor.clips: datasets.motions._clips datasets.motions._content datasets.motions._windows
predictor.commands: cli.commands.predict
predictor.continuation: evaluation.mpl._predict
predictor.data: datasets.motions._one_skeleton datasets.motions._open datasets.motions._read datasets.motions._starter
    trainers.train_mpl._data
predictor.encoder: encoders.mpl encoders.mpl._find encoders.mpl._inputs encoders.mpl._native encoders.mpl._network
    encoders.mpl._scales
predictor.encoder_probe: trainers.pretrain.mpl_encoder._frames trainers.pretrain.mpl_encoder._probe
    trainers.pretrain.mpl_encoder._table
predictor.encoder_settings: trainers.pretrain.mpl_encoder trainers.pretrain.mpl_encoder._settings
predictor.encoder_train: trainers.pretrain.mpl_encoder._batches trainers.pretrain.mpl_encoder._loss
    trainers.pretrain.mpl_encoder._trainer
predictor.evaluate: cli.commands._eval_mpl predictor.evaluation.protocol
predictor.evaluation.baselines: evaluation.mpl._extrapolate evaluation.mpl._nearest evaluation.mpl._ridge
    evaluation.mpl.long._matching
predictor.evaluation.data: evaluation.mpl._data
predictor.evaluation.guide: evaluation.mpl._guide
predictor.evaluation.kept: evaluation.mpl._keep evaluation.mpl._kept
predictor.evaluation.long.measure: evaluation.mpl.long._figures evaluation.mpl.long._measure evaluation.mpl.long._paths
predictor.evaluation.long.result: evaluation.mpl.long._result
predictor.evaluation.measure: evaluation.mpl._by_clip evaluation.mpl._figures evaluation.mpl._horizons
    evaluation.mpl._measure
predictor.evaluation.run: evaluation.mpl._folder evaluation.mpl._result evaluation.mpl._run
predictor.export: policies.mpl._export policies.mpl._legend
predictor.features: policies.mpl._course policies.mpl._features policies.mpl._period policies.mpl._predicted
predictor.guide_config: predictor.guide_files trainers.train_mpl._guide_config trainers.train_mpl._guide_keys
    trainers.train_mpl._guide_stages
predictor.guide_figures: trainers.train_mpl._metrics_files
predictor.heads: policies.mpl._delta policies.mpl._one_shot policies.mpl._trunk
predictor.known_frames: policies.mpl.known_frames
predictor.losses: trainers.train_mpl.losses trainers.train_mpl.losses._frames trainers.train_mpl.losses._joint
    trainers.train_mpl.losses._motion trainers.train_mpl.losses._rotations
predictor.network: policies.mpl._lively policies.mpl._network policies.mpl._roll_out policies.mpl._standing
predictor.norm_template: trainers.train_mpl._norm_template
predictor.objective: trainers.train_mpl._objective
predictor.pages: report._evaluation report._predictor
predictor.policy: policies.mpl._factory policies.mpl._policy policies.mpl._store
predictor.runtime: policies.mpl.runtime
predictor.schedule: trainers.train_mpl._schedule trainers.train_mpl._values
predictor.search_space: trainers.train_mpl._space
predictor.settings: policies.mpl policies.mpl._settings
predictor.stages: trainers.train_mpl._stages
predictor.start: trainers.train_mpl._initialise trainers.train_mpl._model
predictor.train: trainers.train_mpl._facts trainers.train_mpl._trainer trainers.train_mpl._validate
predictor.train_settings: trainers.train_mpl trainers.train_mpl._preset trainers.train_mpl._settings
regions.datasets.arrow_files: datasets.regions._arrow
regions.datasets.dataset: datasets.regions._dataset datasets.regions._index datasets.regions._open
    datasets.regions._split
regions.datasets.formats: datasets.regions._coco datasets.regions._finetune datasets.regions._lines
regions.datasets.grasp: datasets.regions._grasp datasets.regions._turns
regions.datasets.images: datasets.regions._images
regions.datasets.masks: datasets.regions._masks datasets.regions._polygons datasets.regions._rle
regions.datasets.places: datasets.regions._hub datasets.regions._places
regions.datasets.rows: datasets.regions._rows
regions.datasets.scenes: datasets.shapes._dataset datasets.shapes._grammar datasets.shapes._words
regions.datasets.settings: datasets.regions datasets.shapes
regions.evaluate: cli.commands._eval_sa2va evaluation.regions._models regions.evaluation.models
    regions.evaluation.protocol
regions.evaluation.gallery: evaluation.regions._gallery evaluation.regions._pictures
regions.evaluation.known: evaluation.regions._absent evaluation.regions._known evaluation.regions._truth
regions.evaluation.measure: evaluation.regions._measure evaluation.regions._task
regions.evaluation.result: evaluation.regions._figures evaluation.regions._result
regions.evaluation.split: evaluation.regions._entropy evaluation.regions._split
regions.meteor: metrics.meteor
regions.meteor.build: metrics.meteor.build
regions.meteor.score: metrics.meteor._lexicon metrics.meteor._score
regions.pages: report._region_evaluation report._regions
regions.pretrain: trainers._regions trainers.pretrain.regions._eyes trainers.pretrain.regions._trainer
    trainers.pretrain.regions._words
regions.pretrain_settings: trainers.pretrain.regions
regions.reward_terms: rewards.regions._rewards
regions.rewards: rewards.regions
regions.sa2va: policies.sa2va
regions.sa2va.inputs: policies.sa2va._pixels policies.sa2va._words
regions.sa2va.open: policies.sa2va._export policies.sa2va._guide policies.sa2va._open policies.sa2va._place
regions.sa2va.parts: policies.sa2va._composite policies.sa2va._parts policies.sa2va._published policies.sa2va._shims
regions.sa2va.policy: policies.sa2va._document policies.sa2va._language policies.sa2va._policy
regions.sa2va.sizes: policies.sa2va._memory policies.sa2va._sizes policies.sa2va._variants
regions.self_play.loop: trainers.sa2va_rl.loops.base
regions.self_play.loops: trainers.sa2va_rl.loops
regions.self_play.play: trainers.sa2va_rl._order trainers.sa2va_rl._play trainers.sa2va_rl._rewards
regions.self_play.preflight: trainers.sa2va_rl._preflight
regions.self_play.settings: trainers.sa2va_rl trainers.sa2va_rl._settings
regions.self_play.summary: trainers.sa2va_rl._alarms trainers.sa2va_rl._summary
regions.self_play.train: trainers.sa2va_rl._balance trainers.sa2va_rl._schedule trainers.sa2va_rl._trainable
    trainers.sa2va_rl._trainer
regions.self_play.turns: trainers.sa2va_rl.loops._actions trainers.sa2va_rl.loops._caption_to_mask
    trainers.sa2va_rl.loops._drawn trainers.sa2va_rl.loops._mask_to_caption
regions.small: policies.regions._document policies.regions._network policies.regions._policy policies.regions._store
    policies.regions._words policies.regions.api
regions.small_settings: policies.regions policies.regions._settings
report.page: report._compare report._page report._write
rigs._contacts: rigs._gait rigs._period
rigs._fix_feet: rigs._two_bones
rigs._retarget: rigs._onto
rigs._solve_rotations: rigs._solve_twist
rigs.bodymap: rigs._bodymap rigs._facing
rigs.detect: rigs._detect rigs._units
rigs.rest: rigs._rest rigs._smpl
rigs.roles: rigs._roles rigs._sides
rigs.solver: rigs._flips rigs._solve
rl._noise: rl._categorical rl._low_pass rl._row_noise
rl._objective: rl._audit rl._density rl._surrogate
rl._plan: rl._excess rl._flow rl._schedule
rl._rollout: rl._graph
runs._checkpoint: runs._optimizer runs._random runs._save
runs._fingerprint: runs._content
runs._folder: runs._lock
runs._manage: runs._opened
runs._model: runs._trained_on
runs._record: runs._git runs._origin
runs._run: runs._following runs._log runs._open runs._signals
runs.atomic: runs._atomic runs._output runs._tree runs._writable
starter._catalogue: starter._catalogue_place starter._catalogue_travel starter._entry starter._pack
starter._locomotion: starter._gait
starter._solve: starter._body starter._controls
starter._take: starter._timing
starter._trunk_and_legs: starter._legs starter._torso
starter.distil_text: starter._wordings
starter.plan: datasets.starter._plan
success.actor: policies.actor._actor policies.actor._pixels policies.actor._store policies.actor.api
success.actor_settings: policies.actor policies.actor._settings
success.classifier: encoders.success._card encoders.success._classifier encoders.success._find encoders.success._guide
    encoders.success._native
success.classifier_network: encoders.success._network
success.collect: trainers.reward_collect._acting trainers.reward_collect._import trainers.reward_collect._kept
    trainers.reward_collect._open trainers.reward_collect._trainer
success.collect_settings: trainers.reward_collect trainers.reward_collect._settings
success.collected: trainers._collected
success.environments.arm: environments.reach._arm environments.reach._environment environments.reach._links
    environments.reach._picture
success.environments.canvas: environments._canvas
success.environments.open: environments._open
success.environments.process_workers: environments._processes
success.environments.ray_workers: environments._ray
success.environments.registered: environments.gymnasium._adapter environments.gymnasium._environment
    environments.gymnasium._pictures environments.gymnasium._states environments.gymnasium._success
    environments.gymnasium.api
success.environments.simulators: environments.maniskill._environment environments.maniskill._goal
    environments.mujoco._drawing environments.mujoco._environment
success.environments.table: environments.push._contact environments.push._environment environments.push._picture
success.environments.tasks: environments.gymnasium environments.gymnasium._settings environments.maniskill
    environments.maniskill._settings environments.mujoco environments.mujoco._settings environments.push
    environments.push._settings environments.reach environments.reach._settings
success.environments.workers: environments._work environments._workers
success.episodes: datasets.episodes
success.episodes.collector: datasets.episodes._collector
success.episodes.labels: datasets.episodes._labels
success.episodes.lerobot: datasets.episodes._lerobot datasets.episodes._lerobot_write datasets.episodes._video
success.episodes.lerobot_read: datasets.episodes._lerobot_read
success.episodes.open: datasets.episodes._open
success.episodes.parquet: datasets.episodes._parquet_footer
success.episodes.read: datasets.episodes._read datasets.episodes._records datasets.episodes._shards runs._mapped
success.episodes.trajectories: datasets.episodes._export datasets.episodes._guide_files datasets.episodes._trajectories
success.evaluation.checks: evaluation.reward._checks
success.evaluation.data: evaluation.reward._data evaluation.reward._score
success.evaluate: cli.commands._eval_reward
success.evaluation.report: evaluation.reward._figures evaluation.reward._folder evaluation.reward._report
    evaluation.reward._strips
success.pages: report._collected report._reward report._success
success.ppo.backend: trainers.ppo._backend
success.ppo.clone: trainers.ppo._clone
success.ppo.guide: trainers.ppo._guide_config trainers.ppo._guide_keys
success.ppo.mining: trainers.ppo._mined_frames trainers.ppo._mining
success.ppo.scored_env: trainers.ppo._motions trainers.ppo._scorer trainers.ppo._vec_env
success.ppo.settings: trainers.ppo trainers.ppo._environment trainers.ppo._settings
success.ppo.train: trainers.ppo._alarm trainers.ppo._films trainers.ppo._task trainers.ppo._trainer
    trainers.ppo._verdict
success.reward: rewards.env rewards.success
success.reward_frames: rewards.env._reward rewards.success._reward
success.train: trainers.reward_train._trainer trainers.reward_train._validate
success.train_data: success.train_episodes trainers.reward_train._batches trainers.reward_train._frames
    trainers.reward_train._open trainers.reward_train.api
success.train_settings: trainers.reward_train trainers.reward_train._guide_config trainers.reward_train._guide_keys
    trainers.reward_train._settings
success.true_success: evaluation.success evaluation.success._episodes evaluation.success._figures
testing._component: testing._report
testing._datasets: testing._region_datasets
testing._policies: testing._predictors testing._region_policies
testing._rewards: testing._records testing._samples
testing._trainers: testing._algorithms testing._loops
text._load: text._open text._record text._transformers
text._named: text._lengths text._limbs
text._nearest: text._known
text._prompt: text._cache text._features
text._sides: text._caption_changes
text._stored: text._student
text_to_motion.commands: cli.commands.compose cli.commands.generate
text_to_motion.crops: encoders._crops
text_to_motion.data.clip_sets: datasets.composite._sets datasets.composite._totals
text_to_motion.data.compose: datasets.composite._captions datasets.composite._compose datasets.composite._draw
    datasets.composite._messages datasets.composite._plan datasets.composite._tower datasets.composite._write
text_to_motion.data.composite: datasets.composite datasets.composite._schema
text_to_motion.data.composite_set: datasets.composite._arrays datasets.composite._consistency
    datasets.composite._dataset datasets.composite._read
text_to_motion.data.folder: datasets.humanml._dataset datasets.humanml._reader
text_to_motion.data.humanml: datasets.humanml
text_to_motion.data.joined: datasets.composite._motion datasets.composite._seams datasets.composite._sources
    datasets.joining datasets.overlap datasets.reference text_to_motion.data.reference
text_to_motion.data.starter: datasets.starter
text_to_motion.data.starter_clips: datasets.starter._cache datasets.starter._dataset datasets.starter._prompts
text_to_motion.evaluation.export: evaluation._generate evaluation.export
text_to_motion.evaluation.heldout: evaluation._heldout evaluation._sets evaluation._shown
text_to_motion.evaluation.judge: evaluation._calibrate evaluation._fit evaluation._judge evaluation._leaks
text_to_motion.evaluation.pages: report._motions
text_to_motion.evaluation.protocol.compare: evaluation.text_to_motion._compare evaluation.text_to_motion._policy
text_to_motion.evaluation.protocol.figures: evaluation.text_to_motion._figures
text_to_motion.evaluation.protocol.measure: evaluation.text_to_motion._how evaluation.text_to_motion._measure
    evaluation.text_to_motion._questions
text_to_motion.evaluation.protocol.run: evaluation.text_to_motion._page evaluation.text_to_motion._run
    evaluation.text_to_motion._store
text_to_motion.evaluation.protocol.tables: evaluation.text_to_motion._formats evaluation.text_to_motion._published
    evaluation.text_to_motion._summary
text_to_motion.evaluation.protocols: cli.commands._eval_run cli.commands._eval_sensitivity
text_to_motion.evaluation.quality: evaluation._quality
text_to_motion.evaluation.real_motions: evaluation._real
text_to_motion.evaluation.retrieval: evaluation._retrieval
text_to_motion.evaluation.sensitivity.audit: evaluation.sensitivity._alone evaluation.sensitivity._audit
    evaluation.sensitivity._figures
text_to_motion.evaluation.sensitivity.bench: evaluation.sensitivity._bench evaluation.sensitivity._clips
    evaluation.sensitivity._rows
text_to_motion.evaluation.sensitivity.pages: report._sensitivity
text_to_motion.evaluation.sensitivity.quick: evaluation.sensitivity._quick
text_to_motion.evaluation.sensitivity.words: evaluation.sensitivity._words
text_to_motion.evaluator.files: encoders.t2m._beside encoders.t2m._layout encoders.t2m._load encoders.t2m._native
    rewards.mdm.opening evaluation.text_to_motion._doubt
text_to_motion.evaluator.model: encoders.t2m._model encoders.t2m._network encoders.t2m._new encoders.t2m._words
text_to_motion.evaluator.settings: trainers.pretrain.t2m_evaluator trainers.pretrain.t2m_evaluator._settings
text_to_motion.evaluator.train: trainers.pretrain.t2m_evaluator._loss trainers.pretrain.t2m_evaluator._trainer
    trainers.pretrain.t2m_evaluator._words
text_to_motion.grpo.algorithms: trainers.grpo.algorithms
text_to_motion.grpo.algorithms.awm: trainers.grpo.algorithms.awm
text_to_motion.grpo.algorithms.base: trainers.grpo._reference trainers.grpo.algorithms.base
text_to_motion.grpo.algorithms.credit: trainers.grpo._whole trainers.grpo.algorithms._credit
text_to_motion.grpo.algorithms.dpo: trainers.grpo.algorithms.dpo
text_to_motion.grpo.algorithms.easytune: trainers.grpo.algorithms.easytune
text_to_motion.grpo.algorithms.grpo: trainers.grpo.algorithms._kl trainers.grpo.algorithms._window
    trainers.grpo.algorithms.flow_grpo trainers.grpo.algorithms.grpo
text_to_motion.grpo.algorithms.matching: trainers.grpo.algorithms._matching trainers.grpo.algorithms._noised
text_to_motion.grpo.algorithms.mixed: trainers.grpo.algorithms.mixed
text_to_motion.grpo.algorithms.nft: trainers.grpo.algorithms.nft
text_to_motion.grpo.algorithms.options: trainers.grpo.algorithms.components trainers.grpo.algorithms.options
    trainers.grpo.algorithms.options._awm trainers.grpo.algorithms.options._dpo
    trainers.grpo.algorithms.options._easytune trainers.grpo.algorithms.options._flow
    trainers.grpo.algorithms.options._gradient trainers.grpo.algorithms.options._grpo
    trainers.grpo.algorithms.options._matching trainers.grpo.algorithms.options._mixed
    trainers.grpo.algorithms.options._nft trainers.grpo.algorithms.options._shared
text_to_motion.grpo.algorithms.reward_gradient: trainers.grpo.algorithms.reward_gradient
text_to_motion.grpo.algorithms.terms: trainers.grpo.algorithms._hold trainers.grpo.algorithms._terms
text_to_motion.grpo.api: trainers.grpo.api
text_to_motion.grpo.measurements: evaluation._alarms trainers.grpo._measurements
text_to_motion.grpo.settings: trainers.grpo trainers.grpo._auto trainers.grpo._preset trainers.grpo._settings
text_to_motion.grpo.step: trainers.grpo._engine
text_to_motion.grpo.train: trainers.grpo._cursor trainers.grpo._inputs trainers.grpo._trainer
text_to_motion.mdm.files: policies.mdm._document policies.mdm._released policies.mdm._stock policies.mdm._store
text_to_motion.mdm.losses: trainers.pretrain.mdm._loss
text_to_motion.mdm.network: policies.mdm._condition policies.mdm._network
text_to_motion.mdm.open: policies.mdm._factory
text_to_motion.mdm.policy: policies.mdm._dip policies.mdm._policy policies.mdm._prefix
text_to_motion.mdm.settings: policies.mdm policies.mdm._settings trainers.pretrain.mdm trainers.pretrain.mdm._settings
text_to_motion.mdm.train: trainers.pretrain.mdm._batches trainers.pretrain.mdm._trainer
text_to_motion.pairs.data: trainers.pretrain._clips trainers.pretrain._pairs
text_to_motion.pairs.negatives: trainers.pretrain._negatives
text_to_motion.pairs.settings: trainers.pretrain._kinds trainers.pretrain._pair_settings trainers.pretrain._size
text_to_motion.pairs.train: trainers.pretrain._contrast trainers.pretrain._pair_trainer trainers.pretrain._retrieval
    trainers.pretrain._statistics
text_to_motion.rewards.ask: rewards._ask rewards._scores rewards.elsewhere
text_to_motion.rewards.components: rewards._matching rewards.movement rewards.physics rewards.tmr
text_to_motion.rewards.joint_space: rewards._matching._formulas rewards._matching._segments rewards._matching.rewards
    rewards.tmr._reward
text_to_motion.rewards.mdm: rewards.mdm
text_to_motion.rewards.mix: rewards._groups
text_to_motion.rewards.motion_terms: rewards.movement._reward rewards.physics._reward
text_to_motion.rewards.ranked: rewards.mdm._others rewards.mdm._reward
text_to_motion.tmr.files: encoders.tmr._layout encoders.tmr._load encoders.tmr._native encoders.tmr._stats
    rewards.tmr.opening
text_to_motion.tmr.model: encoders.tmr._model encoders.tmr._network encoders.tmr._new encoders.tmr._pairs
    encoders.tmr._patch encoders.tmr._sentences encoders.tmr._text encoders.tmr._tokens
text_to_motion.tmr.settings: trainers.pretrain.tmr trainers.pretrain.tmr._settings
text_to_motion.tmr.train: trainers.pretrain.tmr._data trainers.pretrain.tmr._evaluate trainers.pretrain.tmr._loss
    trainers.pretrain.tmr._trainer
text_to_motion.typed: cli._prompts
tracking._jsonl: tracking._series
tracking._metrics: tracking._definitions tracking._motion_metrics
tracking._results: tracking._retrieval
tracking._trackers: tracking._bridge
training.base: trainers.base
training.device: trainers._device trainers._matmul
training.execute: trainers.execute
training.guide_yaml: trainers._guide_yaml
training.launch: trainers.launch trainers.words
training.learner: trainers._best trainers._gradients trainers._learner
training.steps: trainers._loop trainers._state
training.together: trainers.together
training.world: trainers._following trainers._world
tuning.base: tuning._base tuning._keys
tuning.plan: tuning._names tuning._plan tuning._space
tuning.recorded: tuning._recorded tuning._rules
tuning.result: tuning._page tuning._result tuning._write
tuning.search: tuning._processes tuning._search
tuning.storage: tuning._sampler tuning._storage
tuning.work: tuning._trial tuning._work
version: _version
weights._arrays: weights._zip
weights._gate: weights._calls weights._names weights._node
weights._pickles: weights._opcodes weights._walk
weights._read: weights._torch
weights._strict: weights._describe weights._tensors
"""


@cache
def moved() -> dict[str, str]:
    """Return today's path by old path, both without ``motionkit.``."""
    rows = TABLE.replace("\n    ", " ").strip().splitlines()
    return {old: new for new, _, olds in (row.partition(": ") for row in rows) for old in olds.split()}


@cache
def _parents() -> frozenset[str]:
    """Return the packages that old paths go through."""
    return frozenset(".".join(old.split(".")[:end]) for old in moved() for end in range(1, old.count(".") + 1))


class _Old(Loader):
    """Gives the module of today in place of an old one."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        old = spec.name.removeprefix(_PACKAGE)
        if old in moved():
            module = importlib.import_module(_PACKAGE + moved()[old])
            if old in _parents() and not hasattr(module, "__path__"):
                module.__path__ = []  # so that what lay below the old path can be imported
            spec.loader_state = module.__spec__
        else:
            module = ModuleType(spec.name)
            module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        old = spec.name.removeprefix(_PACKAGE) if spec else ""
        if old in moved():
            assert spec is not None
            module.__spec__ = spec.loader_state  # the import system had put that of the old path in its place
            _warn(old, moved()[old])
        elif old in SEVERAL:
            homes = SEVERAL[old]

            def find(name: str) -> object:
                for home in () if name.startswith("__") else homes:
                    found = importlib.import_module(_PACKAGE + home)
                    if hasattr(found, name):
                        return getattr(found, name)
                raise AttributeError(f"module {_PACKAGE + old!r} has no attribute {name!r}")

            module.__getattr__ = find  # type: ignore[method-assign]
            _warn(old, homes[0])


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"{_PACKAGE}{old} is {_PACKAGE}{new} now; the old path goes with 0.3.", DeprecationWarning, stacklevel=3
    )


class _Finder(MetaPathFinder):
    """Finds old paths, and lets modules that were packages be the parents of what lay in them."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(_PACKAGE):
            return None
        old = name.removeprefix(_PACKAGE)
        if old in moved() or old in SEVERAL:
            return ModuleSpec(name, _Old())
        if old not in _parents():
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None:
            return ModuleSpec(name, _Old())
        if spec.submodule_search_locations is None:
            spec.submodule_search_locations = []
        return spec


sys.meta_path.insert(0, _Finder())
