"""The formats of motionkit itself, which come by the same entry point as those of other packages."""

from __future__ import annotations

from motionkit.formats.format import Format, Reader, Writer

TABLES = ("FullHierarchy.json", "FullOffsets.json")
"""File names of the tables of a whole skeleton, which Unreal's exporter writes next to motions."""

_PLACED = ("up", "unit")
_OF_SCENES = ("fps", *_PLACED, "joint_map", "clip")
_EXPORTED = ("fps", "up", "rot6d_columns", "hierarchy", "offsets")
_HERE, _PLAYER = "motionkit.formats", "motionkit.player.files"

FORMATS = (
    Format(
        "bvh",
        "BVH",
        (".bvh",),
        Reader(
            f"{_HERE}.bvh:read_bvh",
            ("fps", *_PLACED, "joint_map"),
            retimed=True,
            pose=f"{_HERE}.bvh:read_bvh_pose",
            rig=f"{_HERE}.rigs:bvh_rig",
        ),
        Writer(f"{_HERE}.writers:write_bvh_clip", options=("unit",)),
    ),
    Format(
        "glb",
        "GLB",
        (".glb", ".gltf", ".vrm", ".vrma"),
        Reader(
            f"{_HERE}.glb:read_glb",
            _OF_SCENES,
            retimed=True,
            pose=f"{_HERE}.glb:read_glb_pose",
            metres=True,
            rig=f"{_HERE}.rigs:glb_rig",
        ),
        Writer(f"{_HERE}.writers:write_glb_clip", options=("model",)),
    ),
    Format(
        "unreal-json",
        "Unreal / MPL motion JSON",
        (".json",),
        Reader(f"{_HERE}.mpl.read_json:read_mpl_json", _EXPORTED, f"{_HERE}.claims:is_motion_json", TABLES),
    ),
    Format(
        "mpl",
        "MPL npz",
        (".npz",),
        Reader(f"{_HERE}.mpl.npz:read_mpl_npz", _EXPORTED, f"{_HERE}.claims:is_mpl", TABLES),
        Writer(f"{_HERE}.writers:write_mpl_clip", training=True, apart=True, named=True),
    ),
    Format(
        "amass",
        "AMASS / SMPL npz",
        (".amass.npz", ".npz"),
        Reader(f"{_HERE}.amass:read_amass", ("fps", "up", "smpl_model"), f"{_HERE}.claims:is_amass"),
        Writer(f"{_HERE}.writers:write_amass_clip", rotations=False, some_bodies=True),
    ),
    Format(
        "npz",
        "motionkit npz",
        (".npz",),
        Reader(f"{_HERE}.native:read_native", ("fps",), f"{_HERE}.claims:is_native", retimed=True),
        Writer(f"{_HERE}.writers:write_native_clip", rotations=False),
    ),
    Format(
        "joints",
        "joints .npy [T, 22 or 21, 3]",
        (".npy",),
        Reader(f"{_HERE}.arrays:read_joints", ("fps", *_PLACED, "clip"), f"{_HERE}.claims:is_joints"),
        Writer(f"{_HERE}.writers:write_joints_clip", rotations=False, fps=20.0, rig=False, training=True),
    ),
    Format(
        "features",
        "HumanML3D / KIT features .npy",
        (".npy",),
        Reader(f"{_HERE}.arrays:read_features_file", ("fps",), f"{_HERE}.claims:is_features"),
    ),
    Format(
        "mdm-results",
        "MDM results.npy",
        (".npy",),
        Reader(f"{_HERE}.arrays:read_mdm_results", ("fps", *_PLACED, "clip"), f"{_HERE}.claims:is_results"),
    ),
    Format("mp4", "MP4 film", (".mp4",), writer=Writer(f"{_PLAYER}:write_film", rotations=False, most=6)),
    Format("gif", "GIF film", (".gif",), writer=Writer(f"{_PLAYER}:write_film", rotations=False, most=6)),
    Format("html", "page with a player", (".html",), writer=Writer(f"{_PLAYER}:write_page", rotations=False, most=64)),
)
